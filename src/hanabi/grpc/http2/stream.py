"""One stream: a request, and the reply as far as the peer's windows allowed it."""

from collections import deque
from typing import Any

from hanabi.grpc.http2.hpack import Field


class Stream:
    """State of one stream. `call` is the user's."""

    __slots__ = (
        "call",
        "fields",
        "id",
        "is_ended",
        "pieces",
        "receive_window",
        "received",
        "send_window",
        "trailers",
        "unsent_bytes",
    )

    def __init__(self, stream_id: int, fields: list[Field], receive_window: int, send_window: int) -> None:
        self.id, self.fields = stream_id, fields
        self.receive_window, self.send_window = receive_window, send_window
        self.received = 0  # bytes since the last WINDOW_UPDATE
        self.is_ended = False  # by the peer
        self.pieces: deque[bytes] = deque()  # DATA that waits for a window
        self.unsent_bytes = 0  # of those
        self.trailers: bytes | None = None  # the block that ends the stream, behind them
        self.call: Any = None
