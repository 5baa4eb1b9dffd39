"""Limits of the port, and the memory that incomplete requests of all its connections share."""

from typing import Final

import msgspec

from hanabi.grpc.http2.limits import Limits
from hanabi.memory import memory_bytes

_SHARE: Final = 16  # this part of the machine's memory


class PortLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one port."""

    http2: Limits = Limits()
    connections_max: int = 10_000
    request_bytes_max: int = 8 * 1024 * 1024  # of one message of a client
    unread_bytes_max: int = 16 * 1024 * 1024  # replies to one connection that wait: above it no messages are delivered
    idle_seconds: float = 120.0  # a connection without a stream is closed
    stalled_seconds: float = 60.0  # one that reads nothing is closed
    check_seconds: float = 5.0  # how often both are looked for
    first_byte_seconds: float = 30.0
    tls_handshake_seconds: float = 30.0


class RequestMemory:
    """Bytes of requests that are not complete yet, of all connections."""

    def __init__(self, bytes_max: int | None = None) -> None:
        self.bytes_max = bytes_max if bytes_max is not None else min(256 << 20, memory_bytes() // _SHARE)
        self.used = 0

    def take(self, size: int) -> bool:
        """Take *size* bytes; False if there is no room."""
        if self.used + size > self.bytes_max:
            return False
        self.used += size
        return True

    def give_back(self, size: int) -> None:
        """Give bytes back."""
        self.used -= size
