"""HTTP requests to the outside with the rules against forged targets (SSRF): the address is checked after its name was
resolved, the connection goes to that very address, redirects are not followed, and answers are cut.
"""

import http.client
import ipaddress
import socket
import ssl
import time
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from hanabi.errors import MQError

ANSWER_BYTES_MAX: Final = 16 << 10

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class NotPosted(MQError):
    """A request that did not succeed. `again` says whether a retry may help."""

    def __init__(self, reason: str, *, again: bool) -> None:
        super().__init__(reason)
        self.again = again


def is_open(address: str, allowed: Sequence[Network]) -> bool:
    """Return whether a request may go to *address*: a public one, or one of an allowed network. Pure."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    if any(found.version == network.version and found in network for network in allowed):
        return True
    return found.is_global and not found.is_multicast


def post(url: str, body: bytes, headers: dict[str, str], allowed: Sequence[Network], seconds: float) -> int:
    """Post JSON; return the status if it is a success, else raise `NotPosted`. Blocks at most about *seconds*."""
    deadline = time.monotonic() + seconds
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    try:
        connection = http.client.HTTPConnection(host, port, timeout=seconds)
        connection.sock = _connected(host, port, allowed, deadline)
        if parts.scheme == "https":
            connection.sock = ssl.create_default_context().wrap_socket(connection.sock, server_hostname=host)
    except (OSError, UnicodeError) as error:
        raise NotPosted(f"no connection: {getattr(error, 'strerror', None) or error}", again=True) from error
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body, {"Content-Type": "application/json", **headers})
        connection.sock.settimeout(max(deadline - time.monotonic(), 0.05))
        answer = connection.getresponse()
        answer.read(ANSWER_BYTES_MAX)
    except (OSError, http.client.HTTPException) as error:
        raise NotPosted(f"no answer: {type(error).__name__}", again=True) from error
    finally:
        connection.close()
    if 200 <= answer.status < 300:
        return answer.status
    if 300 <= answer.status < 400:
        raise NotPosted(f"answered {answer.status}: redirects are not followed", again=False)
    raise NotPosted(f"answered {answer.status}", again=answer.status >= 500 or answer.status == 429)


def _connected(host: str, port: int, allowed: Sequence[Network], deadline: float) -> socket.socket:
    refused = ""
    error: OSError | None = None
    for family, kind, protocol, _, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        if not is_open(str(place[0]), allowed):
            refused = str(place[0])
            continue
        made = socket.socket(family, kind, protocol)
        try:
            made.settimeout(max(deadline - time.monotonic(), 0.05))
            made.connect(place)
        except OSError as failed:
            made.close()
            error = failed
        else:
            return made
    if error is not None:
        raise error
    raise NotPosted(f"{refused} is not a public address: name its network in webhook.allow", again=False)
