"""Addresses as people and peers write them: "broker-a:10911", "127.0.0.1:10911", "[::1]:10911"."""

import errno
from typing import Any


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of *text*; a ValueError says what is wrong with it."""
    host, colon, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not colon or not host:
        raise ValueError(f"{text!r} is not host:port")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise ValueError(f"{text!r} has no port between 1 and 65535")
    return host, int(port)


def format_address(socket_address: Any) -> str:
    """Return a socket's address, (host, port) or IPv6's (host, port, flow, scope), as `parse_address` reads it."""
    host, port = socket_address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listen_problem(error: OSError | UnicodeError) -> str:
    """Return why an address cannot be listened on, and what to do if its port is taken. Pure."""
    if isinstance(error, UnicodeError):  # an invalid name: an empty label, or one of more than 63 letters
        return "not a host name"
    reason = error.strerror or str(error)
    if error.errno == errno.EADDRINUSE:
        return f"{reason}. Stop the program that has this port, or choose another port"
    return reason
