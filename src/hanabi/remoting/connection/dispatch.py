"""Dispatch: a table from request code to handler, and the one place where errors become response codes.

A handler is a plain function of the typed header, the request and the connection it came by. It returns its
reply, or something to await only where it really must wait: a task per message would cost more than the message. Where
thousands wait (held pulls), a future costs no task.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from hanabi.errors import MQError
from hanabi.wire.codes import ResponseCode, request_name
from hanabi.wire.command import Command
from hanabi.wire.header import Header

if TYPE_CHECKING:
    from hanabi.remoting.connection.protocol import Connection

logger = logging.getLogger(__name__)


class Reply(msgspec.Struct):
    """A handler's reply. The body may be several pieces, which are sent without being joined.

    `fields` is for a fast path: the header's fields as they travel, where making a typed one of them costs too much.
    """

    code: int = ResponseCode.SUCCESS
    remark: str | None = None
    header: Header | None = None
    body: bytes | memoryview | list[bytes | memoryview] = b""
    fields: dict[str, str] | None = None  # in place of `header`


class InTurn(asyncio.Future[Reply]):
    """An answer that waits for its turn on the loop. A connection with several of them is not read any more."""


class LateAnswers:
    """Replies of a fast path that come later: their code, the same for all of them, and their bytes.

    It is used as a future, but calls back at once: each read has one, and a future's callbacks cost as much as the
    reads' messages themselves (SYNC_FLUSH, SYNC_MASTER).
    """

    __slots__ = ("_callbacks", "_found", "_is_cancelled")

    def __init__(self) -> None:
        self._callbacks: list[Callable[[LateAnswers], object]] = []
        self._found: tuple[int, bytes] | None = None
        self._is_cancelled = False

    def add_done_callback(self, then: "Callable[[LateAnswers], object]") -> None:
        """Call *then* when the replies are there, or were given up; at once if that is so already."""
        if self.done():
            then(self)
        else:
            self._callbacks.append(then)

    def done(self) -> bool:
        """Return whether the replies are there, or were given up."""
        return self._is_cancelled or self._found is not None

    def cancelled(self) -> bool:
        """Return whether they were given up."""
        return self._is_cancelled

    def result(self) -> tuple[int, bytes]:
        """Return the replies. Raise CancelledError if they were given up, InvalidStateError if they are not there."""
        if self._is_cancelled:
            raise asyncio.CancelledError
        if self._found is None:
            raise asyncio.InvalidStateError("the replies are not there yet")
        return self._found

    def set_result(self, found: tuple[int, bytes]) -> None:
        """Take the replies, and pass them on."""
        self._found = found
        self._call_back()

    def cancel(self) -> None:
        """Give them up: the peer is gone."""
        if not self.done():
            self._is_cancelled = True
            self._call_back()

    def _call_back(self) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for then in callbacks:
            try:
                then(self)
            except Exception as error:  # noqa: BLE001 - as the loop does it: other peers' replies must not suffer
                about = {"message": "a callback of late replies failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(about)

    def __await__(self) -> Generator[Any, None, tuple[int, bytes]]:
        if not self.done():
            come: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.add_done_callback(lambda _: None if come.done() else come.set_result(None))
            yield from come
        return self.result()


class FastPath(Protocol):
    """A fast path for the usual form of some requests: from request bytes to reply bytes.

    It answers exactly as the handlers of `codes` would, or stops before the first frame that is for a handler.
    """

    @property
    def codes(self) -> tuple[int, ...]:
        """The requests it knows."""

    def __call__(self, data: bytes, connection: Any, /) -> tuple[bytes | LateAnswers | None, int, tuple[int, ...]]:
        """Return the replies to the first frames of *data*, their size, and their count for each of `codes`.

        *data* begins with a frame. The call may stop at any frame; unless that is the first one, calling again is worth
        while. Late replies are cancelled when the connection is lost.
        """


@dataclass(frozen=True, slots=True)
class Handler:
    """The handler of one request code: its header type, and the function to call with it."""

    header: type[Header]
    handle: Callable[[Any, Command, "Connection"], Reply | Awaitable[Reply]]
    body_bytes_max: int | None = None  # above it the request is refused unread; None: as long as a frame may be
    fast_path: object | None = None  # its part of the fast path
    # About how much memory its answer takes while it is made, by its header. For those that wait (a Reply at once
    # needs none) and may be large: see `ReplyMemory`.
    answer_bytes: Callable[[Any], int] | None = None

    def answer_bytes_of(self, request: Command) -> int:
        """Return `answer_bytes` of a request; 0 if its header cannot be read, which is answered at once."""
        if self.answer_bytes is None:
            return 0
        try:
            return self.answer_bytes(request.header(self.header))
        except MQError:
            return 0


def dispatch(handlers: Mapping[int, Handler], request: Command, connection: "Connection") -> Reply | Awaitable[Reply]:
    """Run the handler for *request*. What it raises becomes the reply; if it must wait, what it awaits does. A future
    is returned as it is."""
    handler = handlers.get(request.code)
    if handler is None:
        return Reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f"request type {request.code} not supported")
    if handler.body_bytes_max is not None and len(request.body) > handler.body_bytes_max:
        return Reply(
            ResponseCode.SYSTEM_ERROR,
            f"{request_name(request.code)} has a body of {len(request.body)} bytes, limit {handler.body_bytes_max}",
        )
    try:
        answer = handler.handle(request.header(handler.header), request, connection)
    except Exception as error:  # noqa: BLE001 - a handler's failure is an answer, never the end of the connection
        return error_reply(error, request, connection)
    if type(answer) is Reply or isinstance(answer, asyncio.Future):  # mostly a Reply, and this is on every path
        return answer
    return settled(cast(Awaitable[Reply], answer), request, connection)


async def settled(answer: Awaitable[Reply], request: Command, connection: "Connection") -> Reply:
    """Return the result of *answer*, or an error reply if it fails."""
    try:
        return await answer
    except Exception as error:  # noqa: BLE001
        return error_reply(error, request, connection)


def error_reply(error: Exception, request: Command, connection: "Connection") -> Reply:
    """Return the reply for *error*. An unexpected one is logged with its stack and answered in one line."""
    if isinstance(error, MQError):
        return Reply(error.code, str(error))
    name = request_name(request.code)
    logger.error("request %s from %s failed", name, connection.peer, exc_info=error)
    return Reply(ResponseCode.SYSTEM_ERROR, f"{name} failed: {type(error).__name__}: {error}")
