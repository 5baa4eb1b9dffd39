"""The port of the gRPC API: sockets, TLS, HTTP/2 connections, calls under way."""
