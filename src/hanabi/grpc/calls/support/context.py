"""One call: its metadata, its peer, and the time that its client waits."""

import time
from collections.abc import Callable
from typing import Final

import msgspec

from hanabi.access.quotas.meter import Meter
from hanabi.grpc.backend.peer import Peer
from hanabi.grpc.proto.numbers import Code
from hanabi.grpc.rules.durations import timeout_seconds
from hanabi.grpc.rules.faults import CallRefused

CLIENT_ID_CHARACTERS_MAX: Final = 255


class CallContext(msgspec.Struct):
    """Facts of one call. `own_address` is the address that the client reached. `meter` is that of its account, if this
    has a quota: from the check of its access on."""

    metadata: dict[str, str]
    peer: Peer
    own_address: tuple[str, int]
    begun: float  # of the monotonic clock
    deadline: float | None
    request_bytes: int = 0  # of its message
    meter: Meter | None = None

    @property
    def client_id(self) -> str:
        """The client's id; a call without one is refused."""
        client_id = self.metadata.get("x-mq-client-id", "")
        if not client_id or len(client_id) > CLIENT_ID_CHARACTERS_MAX:
            raise CallRefused(Code.CLIENT_ID_REQUIRED, "client id cannot be empty")
        return client_id

    def left_ms(self) -> float | None:
        """Return the milliseconds until the client gives up; None if it waits for ever."""
        return None if self.deadline is None else (self.deadline - time.monotonic()) * 1000


def call_context(
    metadata: dict[str, str], peer: Peer, own_address: tuple[str, int], clock: Callable[[], float] = time.monotonic
) -> CallContext:
    """Return the context of a call that begins now."""
    now, seconds = clock(), timeout_seconds(metadata.get("grpc-timeout"))
    return CallContext(metadata, peer, own_address, now, None if seconds is None else now + seconds)
