"""HTTP/2, the server's side (RFC 9113) and HPACK (RFC 7541): bytes in, bytes out; no sockets, no clock."""
