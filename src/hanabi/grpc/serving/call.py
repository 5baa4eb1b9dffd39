"""One call under way: its stream, the messages of the client as they arrive, its reply."""

import asyncio
from collections.abc import Callable
from typing import Any

from hanabi.errors import RemoteProtocolError
from hanabi.grpc.calls.support.context import CallContext
from hanabi.grpc.calls.support.method import Conversation, Method
from hanabi.grpc.http2.stream import Stream
from hanabi.grpc.proto.numbers import RpcStatus
from hanabi.grpc.serving.replies import PREFIX


class TooLarge(RemoteProtocolError):
    """A message of the client exceeds the limit."""


class Call:
    """State of one call."""

    __slots__ = ("buffer", "context", "conversation", "is_started", "messages", "method", "stream", "task")

    def __init__(self, method: Method, stream: Stream, context: CallContext) -> None:
        self.method, self.stream, self.context = method, stream, context
        self.buffer = bytearray()  # of a message that is not complete
        self.messages: list[bytes] = []  # complete ones, until the call begins
        self.task: asyncio.Task[Any] | None = None
        self.conversation: Conversation | None = None
        self.is_started = False  # the header fields of the reply are sent

    def take(self, data: bytes, bytes_max: int) -> list[bytes]:
        """Take a part of the request; return the messages that are complete now."""
        buffer = self.buffer
        buffer += data
        complete: list[bytes] = []
        position = 0
        while len(buffer) - position >= PREFIX.size:
            packed, length = PREFIX.unpack_from(buffer, position)
            if packed:
                raise RemoteProtocolError("messages that are compressed by gRPC are not accepted")
            if length > bytes_max:
                raise TooLarge(f"a message of {length} bytes, limit {bytes_max}")
            end = position + PREFIX.size + length
            if len(buffer) < end:
                break
            complete.append(bytes(buffer[position + PREFIX.size : end]))
            position = end
        if position:
            del buffer[:position]
        return complete


class CallOutlet:
    """The sending side of a call that goes both ways."""

    def __init__(self, send: Callable[[Any], None], end: Callable[[RpcStatus, str], None], stream: Stream) -> None:
        self.send, self.end, self._stream = send, end, stream

    def unsent_bytes(self) -> int:
        """Return the bytes that the client has not read yet."""
        return self._stream.unsent_bytes
