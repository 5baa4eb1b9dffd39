"""One connection: frames in, frames out. The same class stands on both sides, as either may ask.

All frames that one read brought are handled in that turn, and answered with one write; unless that takes so long
that others would wait for it, then the rest has its turn after theirs. A request costs no task unless its handler
has to wait. Bounded: what waits for an answer, the answers that are being made, what waits for the rest of its frame,
what waits for the peer to read. What to answer is `dispatch`'s business, the bytes are `hanabi.wire`'s.

If the connection goes away, handlers that still wait are cancelled, as nobody is left to hear their answer:
a handler that awaits something it shares with others shields it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from math import nextafter
from time import monotonic
from typing import Any, cast

from hanabi.errors import ConnectionLostError, RemoteProtocolError, TooManyRequestsError, TransportError
from hanabi.remoting.connection import liveness
from hanabi.remoting.connection.dispatch import Express, InTurn, LateAnswers, Reply, dispatch, error_reply, settled
from hanabi.remoting.connection.endpoint import Endpoint
from hanabi.remoting.connection.pending import CLOCK_STEP_SECONDS, AnswerTo, PendingRequests
from hanabi.remoting.loop import writes_are_cheap
from hanabi.wire.codes import Flag, ResponseCode, request_name
from hanabi.wire.command import Command, decode_command, encode_reply_head, encode_request
from hanabi.wire.frame import FRAME_BYTES_MAX, FrameDecoder, encode_frame
from hanabi.wire.header import Header, header_fields

logger = logging.getLogger(__name__)

JOIN_BYTES_MAX = 64 * 1024  # copying this little is cheaper than handing over the pieces
# Answers of the short cut as small as this are sent at the end of the turn, with those to other connections: it is we
# who pay for waking a peer, and one with several connections is awake for the next ones. A large one goes at once, so
# that the peer is busy with it while we go on.
SOON_BYTES_MAX = 4 * 1024
LINGER_SECONDS = 0.25  # for the peer to close after our last answer; to close first could reset it unread
NOT_NOW = -1  # in place of the size of an answer
IN_TURN_MAX = 2  # requests of one connection that wait for their turn; a client has one or two at a time
OPAQUE_MASK = 0x7FFF_FFFF
RESPONSE, ONEWAY = int(Flag.RESPONSE), int(Flag.ONEWAY)

Piece = bytes | memoryview


class Connection(asyncio.Protocol):
    """Invariant: while the peer does not read, too many handlers wait, too much is being made for it or for all, or
    others have their turn, nothing is read from it, and whole frames wait in the backlog, which is empty otherwise.

    `peer` is its address: as we asked for it if we connected, as the socket has it if the peer did.
    `closed` says that nothing can be sent any more; the peer may not know it yet.
    `held_bytes` are those of an incomplete frame, as last told to the endpoint.
    """

    __slots__ = (  # quicker, and there are more than an instance's dictionary would share with the others'
        "__weakref__",  # others remember things of a connection for as long as it lives
        "_answering",
        "_backlog",
        "_closing_since",
        "_decoder",
        "_endpoint",
        "_finishing",
        "_frame_since",
        "_garbage",
        "_gives_way",
        "_handlers",
        "_header_max",
        "_in_turn",
        "_largest_write",
        "_last_active",
        "_loop",
        "_making_bytes",
        "_now",
        "_opaques",
        "_outbox",
        "_outbox_bytes",
        "_paused",
        "_pending",
        "_pending_max",
        "_reason",
        "_resumed",
        "_stalled_since",
        "_tasks",
        "_tasks_max",
        "_told_unheard",
        "_transport",
        "_turn",
        "_turn_ends",
        "_turn_seconds",
        "_unanswered_since",
        "_unheard",
        "_unsent_max",
        "_writes_are_cheap",
        "closed",
        "held_bytes",
        "peer",
    )

    def __init__(self, endpoint: Endpoint, peer: str) -> None:
        config = endpoint.config
        self.peer = peer
        self.closed = False
        self.held_bytes = 0
        self._endpoint = endpoint
        self._handlers = endpoint.handlers
        self._pending_max = config.pending_requests_max
        self._tasks_max = config.waiting_tasks_max
        self._unsent_max = config.write_buffer_bytes_max
        self._header_max = config.header_bytes_max
        self._turn_seconds = config.turn_seconds_max
        self._decoder = FrameDecoder(config.frame_bytes_max)
        self._paused = False  # frames go to the backlog, and are not read any more
        self._backlog: list[bytes] = []
        self._in_turn = 0  # requests that wait for their turn
        self._gives_way = False  # until the loop has been around once
        self._turn = 0.0  # the loop's time when this turn began, and the real time when it must end
        self._turn_ends = 0.0
        self._garbage = ""  # why nothing that follows the backlog can be understood
        self._answering: set[asyncio.Future[Any]] = set()
        self._tasks = 0  # of those, for which a coroutine waits: each takes some kilobytes
        self._making_bytes = 0  # of large answers
        self._opaques = count(1)
        self._outbox: list[Piece] = []
        self._outbox_bytes = 0
        self._largest_write = 0  # of those that the peer may not have taken whole
        self._resumed: asyncio.Future[None] | None = None  # there while the peer does not read
        self._reason = ""
        self._finishing = False
        self._told_unheard = False
        self._unheard = 0.0  # what `_last_active` is until the peer is heard for the first time
        self._last_active = 0.0  # when the peer was last heard; what we write says nothing about it
        self._unanswered_since = 0.0  # when the first request began that timed out after that
        self._stalled_since = 0.0
        self._frame_since = 0.0
        self._closing_since = 0.0

    # What the loop tells us

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._pending = PendingRequests(self._loop, self.peer, self._unanswered)
        self._writes_are_cheap = writes_are_cheap(self._loop, self._transport)
        self._unheard = self._last_active = nextafter(self._now(), 0.0)  # before whatever is heard in this turn
        self._transport.set_write_buffer_limits(high=self._unsent_max)
        if (own := self._transport.get_extra_info("socket")) is not None:
            with suppress(OSError):  # the peer has gone already: the loop is about to say so
                liveness.watch(own, self._endpoint.config.idle_seconds)
        self._endpoint.joined(self)

    def data_received(self, data: bytes) -> None:
        if self.closed:
            return
        now = self._last_active = self._now()
        if now != self._turn:  # uvloop may read many times in a turn, in which its clock stands still
            self._turn = now
            self._turn_ends = monotonic() + self._turn_seconds
        express, answered = self._endpoint.express, 0
        try:
            if express is not None and not (self._paused or self._finishing or self._endpoint.writes_too_much):
                data, answered = self._by_express(express, self._decoder.joined(data))
            frames = self._decoder.feed(data) if data else []
        except RemoteProtocolError as error:
            self._refuse_after_backlog(_said_plainly(error, data))
            return
        if self._finishing:
            self._take_responses(frames)
        else:
            if self._endpoint.writes_too_much and not self._paused:
                self._give_way()
            frames_now = self._for_this_turn(frames, answered)
            if frames_now:
                self._handle(frames_now)
        if self.held_bytes or self._decoder.buffered_bytes:
            self._account(bool(answered or frames))

    def eof_received(self) -> None:
        self._empty_outbox()  # the loop closes the connection next, and the peer may still read

    def pause_writing(self) -> None:
        self._stalled_since = self._now()
        self._resumed = self._loop.create_future()
        self._pause()

    def resume_writing(self) -> None:
        self._release_writers()
        self._catch_up()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._reason:
            self._reason = (f"connection lost: {error}" if error else "closed by the peer") + self._hint()
            if self._decoder.buffered_bytes and not self._finishing:
                self._endpoint.protocol_errors += 1
                logger.warning("%s: %s in the middle of a frame", self.peer, self._reason)
            else:
                logger.debug("%s: %s", self.peer, self._reason)
        self._end()
        self._release_writers()
        self._backlog.clear()
        self._endpoint.left(self, self._answering)

    def _hint(self) -> str:
        """What may be wrong where a server ends a connection without a word: most often one side alone has TLS."""
        if not self._endpoint.drops_silent or self._last_active != self._unheard:
            return ""
        if self._transport.get_extra_info("sslcontext") is None:
            return ", before it answered anything. This connection is plain: does the port take TLS only?"
        return ", before it answered anything. Does it want a client certificate (tls.client.certPath)?"

    # Requests and answers that arrive

    def _by_express(self, express: Express, data: bytes) -> tuple[bytes, int]:
        """Let the short cut answer what it can of *data*; return what is left, and how many frames were answered."""
        answered = 0
        while data:
            answers, taken, counts = express(data, self)
            if not taken:
                break
            answered += sum(counts)
            data = data[taken:]
            if isinstance(answers, asyncio.Future):
                self._when_done(answers, self._answer_together)
            elif answers:
                write = self._write_soon if len(answers) <= SOON_BYTES_MAX else self._write
                write([answers], len(answers))
            if not data or self.closed or self._paused or monotonic() > self._turn_ends:
                break
        self._endpoint.requests += answered
        return data, answered

    def _by_express_again(self, express: Express, frames: list[bytes]) -> list[bytes]:
        """Let the short cut go on with what waited for its turn; return what is for the handlers now.

        It takes a tenth of their time: whoever came to be behind would stay behind, were the rest theirs.
        """
        try:
            _, answered = self._by_express(express, b"".join(map(encode_frame, frames)))
        except BaseException:
            self.drop("its requests cannot be answered")  # as the loop does if that fails in `data_received`
            raise
        return [] if self.closed else self._for_this_turn(frames[answered:], answered)

    def _for_this_turn(self, frames: list[bytes], answered: int) -> list[bytes]:
        """What of *frames* is for the handlers now: nothing while we pause, nor if the short cut, which *answered* what
        came before, has used up the turn. The rest goes to the backlog."""
        if frames and answered and not self._paused and monotonic() > self._turn_ends:
            self._give_way()
        if self._paused:  # TLS may still deliver what it had when we paused
            self._backlog += frames
            return []
        return frames

    def _handle(self, frames: list[bytes]) -> None:
        """Answer *frames* with one write, or as many of them as the peer, and our turn, let us."""
        pieces: list[Piece] = []
        unsent = 0
        for handled, frame in enumerate(frames, 1):
            try:
                size = self._handle_one(frame, pieces)
            except RemoteProtocolError as error:
                self._write(pieces, unsent)
                self._refuse(str(error))
                break
            if size == NOT_NOW:
                self._pause()
                self._backlog = frames[handled - 1 :]
                break
            unsent += size
            if unsent > self._unsent_max:
                self._write(pieces, unsent)
                pieces, unsent = [], 0
            if self.closed:
                break
            if monotonic() > self._turn_ends:
                self._give_way()
            if self._paused:
                self._backlog = frames[handled:]
                break
        if unsent:
            self._write(pieces, unsent)

    def _handle_one(self, frame: bytes, pieces: list[Piece]) -> int:
        """Put the answer behind *pieces*, if it is there at once; return how many bytes that are. NOT_NOW: there is no
        space to make it, and nothing was done."""
        command = decode_command(frame, self._header_max)
        if command.flag & RESPONSE:
            self._take_response(command)
            return 0
        handler = self._handlers.get(command.code)
        if handler is not None and handler.answer_bytes is not None:
            return self._handle_large(command, handler.answer_bytes_of(command), pieces)
        self._endpoint.requests += 1
        answer = dispatch(self._handlers, command, self)
        if type(answer) is Reply:
            return self._append_reply(pieces, command, answer)
        self._answer_later(command, cast(Awaitable[Reply], answer))
        return 0

    def _handle_large(self, command: Command, size: int, pieces: list[Piece]) -> int:
        """As `_handle_one`, for an answer that takes *size* bytes until it is written."""
        making = self._making_bytes
        if making and making + self.unsent_bytes + size > self._unsent_max:
            return NOT_NOW  # until one of those is written
        if not self._endpoint.reply_memory.take(size, self):
            return NOT_NOW
        self._endpoint.requests += 1
        answer = dispatch(self._handlers, command, self)
        if type(answer) is Reply:
            self._endpoint.reply_memory.give_back(size)
            return self._append_reply(pieces, command, answer)
        self._making_bytes += size
        awaited = settled(answer, command, self) if isinstance(answer, asyncio.Future) else answer
        task = self._answer_in_task(command, cast(Awaitable[Reply], awaited))
        task.add_done_callback(partial(self._made, size))
        return 0

    def _made(self, size: int, _: asyncio.Task[None]) -> None:
        """A large answer is written, or will never be."""
        self._making_bytes -= size
        self._endpoint.reply_memory.give_back(size)
        if self._paused:
            self._catch_up()

    def go_on_if_possible(self) -> None:
        """There may be space for the large answer that the backlog begins with."""
        if self._paused:
            self._catch_up()

    def _answer_later(self, request: Command, answer: Awaitable[Reply]) -> None:
        if isinstance(answer, asyncio.Future):
            self._when_done(answer, partial(self._answer_with, request))
            if isinstance(answer, InTurn):
                self._wait_for_turn(answer)
        else:
            self._answer_in_task(request, answer)

    def _wait_for_turn(self, answer: InTurn) -> None:
        """Read no more while several requests wait for their turn: to take in more of them would hold up others."""
        self._in_turn += 1
        answer.add_done_callback(self._had_turn)
        if self._in_turn >= IN_TURN_MAX:
            self._pause()

    def _had_turn(self, _: asyncio.Future[Reply]) -> None:
        self._in_turn -= 1
        if not self._in_turn and self._paused:
            self._catch_up()

    def _when_done(self, answer: asyncio.Future[Any], then: Callable[[Any], None]) -> None:
        """Wait for *answer*, and read no more while too many are waited for."""
        self._answering.add(answer)
        answer.add_done_callback(then)
        if len(self._answering) >= self._pending_max:
            self._pause()

    def _answer_together(self, answers: LateAnswers) -> None:
        if not answers.cancelled():
            _, data = answers.result()
            self._write_soon([data], len(data))
        self._forget_answer(answers)

    def _answer_in_task(self, request: Command, answer: Awaitable[Reply]) -> asyncio.Task[None]:
        """Answer when *answer* is there, and read no more while too many tasks wait."""
        task = self._loop.create_task(self._answer(request, answer))
        self._when_done(task, self._answered)
        self._tasks += 1
        if self._tasks >= self._tasks_max:
            self._pause()
        return task

    def _answer_with(self, request: Command, future: asyncio.Future[Reply]) -> None:
        """*future* is done: answer with what it brought, at once if the peer reads."""
        if not future.cancelled():
            if self._resumed is not None:
                self._answer_in_task(request, settled(future, request, self))
            else:
                error = future.exception()
                reply = error_reply(error, request, self) if isinstance(error, Exception) else future.result()
                pieces: list[Piece] = []
                self._write_soon(pieces, self._append_reply(pieces, request, reply))
        self._forget_answer(future)

    async def _answer(self, request: Command, answer: Awaitable[Reply]) -> None:
        reply = await answer
        while self._resumed is not None:
            await asyncio.wait((self._resumed,))
        pieces: list[Piece] = []
        size = self._append_reply(pieces, request, reply)
        self._write_soon(pieces, size)

    def _answered(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            logger.error("%s: an answer could not be sent", self.peer, exc_info=error)
        self._tasks -= 1
        self._forget_answer(task)
        if self._tasks + 1 == self._tasks_max:
            self._catch_up()

    def _forget_answer(self, answer: asyncio.Future[Any]) -> None:
        self._answering.discard(answer)
        if len(self._answering) + 1 == self._pending_max:
            self._catch_up()
        if self._finishing:
            self._finish_if_all_is_answered()

    def _pause(self) -> None:
        self._paused = True
        self._transport.pause_reading()

    def _give_way(self) -> None:
        """Go on when everybody else has had a turn."""
        self._pause()
        self._gives_way = True
        self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._gives_way = False
        self._catch_up()

    def _catch_up(self) -> None:
        """Go on where we stopped, if all that stopped us is over."""
        if self.closed or self._gives_way or self._resumed is not None or self._waits_for_too_many():
            return
        if self._in_turn >= IN_TURN_MAX:
            return
        if self._endpoint.writes_too_much:
            self._give_way()
            return
        self._paused = False
        self._last_active = self._now()
        self._turn_ends = monotonic() + self._turn_seconds
        frames, self._backlog = self._backlog, []
        if frames and self._endpoint.express is not None:
            frames = self._by_express_again(self._endpoint.express, frames)
        self._handle(frames)
        if self._garbage:
            self._refuse_after_backlog(self._garbage)
        if self._finishing:
            self._finish_if_all_is_answered()
        if not self._paused and not self.closed:
            self._transport.resume_reading()

    def _waits_for_too_many(self) -> bool:
        return len(self._answering) >= self._pending_max or self._tasks >= self._tasks_max

    def _append_reply(self, pieces: list[Piece], request: Command, reply: Reply) -> int:
        """Put the answer to *request* behind *pieces*; return how many bytes that are: none if it was one-way."""
        if request.flag & ONEWAY:
            if reply.code != ResponseCode.SUCCESS:
                self._log_unheard(request, reply)
            return 0
        body = reply.body
        try:
            body_bytes = sum(map(len, body)) if isinstance(body, list) else len(body)
            fields = header_fields(reply.header) if reply.header is not None else reply.fields
            head = encode_reply_head(request, reply.code, reply.remark, fields, body_bytes)
            if len(head) + body_bytes > FRAME_BYTES_MAX:
                head, body, body_bytes = self._too_long(request, len(head) + body_bytes), b"", 0
        except Exception as error:  # half a surrogate pair in a name, say: this answer fails, not the connection
            logger.error("%s: answer to %s cannot be sent", self.peer, request_name(request.code), exc_info=error)
            head = encode_reply_head(request, ResponseCode.SYSTEM_ERROR, "the answer cannot be encoded")
            body, body_bytes = b"", 0
        pieces.append(head)
        if isinstance(body, list):
            pieces += body
        elif body_bytes:
            pieces.append(body)
        return len(head) + body_bytes

    def _too_long(self, request: Command, size: int) -> bytes:
        """The answer in place of one that no client of RocketMQ reads: it would close the connection without a word."""
        name = request_name(request.code)
        logger.warning("%s: the answer to %s has %d bytes, and clients read %d", self.peer, name, size, FRAME_BYTES_MAX)
        remark = f"the answer to {name} has {size} bytes, limit {FRAME_BYTES_MAX}: ask for less at once"
        return encode_reply_head(request, ResponseCode.SYSTEM_ERROR, remark)

    def _log_unheard(self, request: Command, reply: Reply) -> None:
        """The first time aloud: a peer that fails a thousand times a second must not fill the log."""
        level = logging.DEBUG if self._told_unheard else logging.WARNING
        self._told_unheard = True
        logger.log(
            level, "%s: one-way %s failed: %s", self.peer, request_name(request.code), reply.remark or reply.code
        )

    def _take_response(self, command: Command) -> None:
        future = self._pending.end(command.opaque)
        if future is None:
            logger.debug("%s: answer %d comes too late or was not asked for", self.peer, command.opaque)
        elif not future.done():
            future.set_result(command)

    def _take_responses(self, frames: list[bytes]) -> None:
        """While we finish, no new request is begun, but those being handled may need what they asked for."""
        for frame in frames:
            try:
                command = decode_command(frame, self._header_max)
            except RemoteProtocolError as error:
                self._refuse(str(error))
                return
            if command.flag & RESPONSE:
                self._take_response(command)

    def _account(self, began_anew: bool) -> None:
        """Keep the endpoint's sum true, and remember when the incomplete frame began."""
        try:
            self._decoder.check()
        except RemoteProtocolError as error:
            self._refuse_after_backlog(str(error))
        endpoint, held = self._endpoint, self._decoder.buffered_bytes
        if held and (began_anew or not self.held_bytes):
            self._frame_since = self._last_active
        endpoint.held_bytes += held - self.held_bytes
        self.held_bytes = held
        if endpoint.held_bytes > endpoint.config.read_buffer_total_bytes_max:
            endpoint.drop_hoarder()

    # Requests that we send

    async def request(
        self,
        code: int,
        header: Header | Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout: float,  # noqa: ASYNC109 - it belongs to the request, and the error says how long it was
    ) -> Command:
        """Ask the peer and return its answer, whatever its code. Says in an error which peer, and why not."""
        if len(self._pending) >= self._pending_max:
            raise TooManyRequestsError(f"{self.peer}: {self._pending_max} requests wait for an answer already")
        self._must_be_open()
        opaque = next(self._opaques) & OPAQUE_MASK
        future: asyncio.Future[Command] = self._loop.create_future()
        self._pending.begin(opaque, code, timeout, future)
        try:
            while self._resumed is not None and not future.done():
                await asyncio.wait((self._resumed, future), return_when=asyncio.FIRST_COMPLETED)
            if not future.done():
                frame = encode_request(code, opaque, header, body)
                self._write_soon([frame], len(frame))
            return await future
        except asyncio.CancelledError:
            self._pending.give_up(opaque)
            raise
        finally:
            self._pending.end(opaque)

    def ask_at_once(
        self,
        code: int,
        header: Header | Mapping[str, str] | None,
        body: bytes,
        timeout: float,
        ended: Callable[[Command | TransportError], None],
    ) -> bool:
        """As `request`, for those who do not wait: *ended* is called with the answer, or with what went wrong.

        False: it cannot be written now, and *ended* is never called. `request` waits, or says why not.
        """
        if self.closed or self._resumed is not None or len(self._pending) >= self._pending_max:
            return False
        opaque = next(self._opaques) & OPAQUE_MASK
        frame = encode_request(code, opaque, header, body)
        self._pending.begin(opaque, code, timeout, AnswerTo(ended))
        if self._writes_are_cheap:
            self._write([frame], len(frame))
        else:
            self._write_soon([frame], len(frame))
        return True

    def send_oneway(
        self, code: int, header: Header | Mapping[str, str] | None = None, body: bytes = b"", *, at_once: bool = False
    ) -> None:
        """Tell the peer something; nobody will know whether it heard.

        *at_once*: before the answer to the request that is being handled, and not with the next write.
        """
        self._must_be_open()
        if self._resumed is not None:
            raise TooManyRequestsError(f"{self.peer}: does not read, {self.unsent_bytes} bytes wait for it already")
        frame = encode_request(code, next(self._opaques) & OPAQUE_MASK, header, body, oneway=True)
        self._write_soon([frame], len(frame))
        if at_once:
            self._empty_outbox()

    def _unanswered(self, began: float) -> None:
        """A request that began then has no answer. A server that has sent nothing at all since then may be gone.

        Agrees with Java's closeSocketIfTimeout, but a peer that answers other requests keeps its connection.
        """
        if not self._endpoint.drops_silent or self._paused or self._heard_since(began):
            return
        if self._heard_since(self._unanswered_since):
            self._unanswered_since = began
        silent = self._now() - self._unanswered_since
        if silent >= self._endpoint.config.silent_peer_seconds and not self._has_unread():
            self.drop(f"no answer, nor anything else, for {silent:.3g} s; the next request connects anew")

    def _has_unread(self) -> bool:
        """Whether the loop, busy with other work, has not read yet what the peer sent."""
        own = self._transport.get_extra_info("socket")
        return own is not None and liveness.has_unread(own)

    def _heard_since(self, moment: float) -> bool:
        """Whether the peer has sent a byte after *moment*. What the clock cannot tell apart came before."""
        return self._last_active > moment + CLOCK_STEP_SECONDS

    def _must_be_open(self) -> None:
        if self.closed:
            raise ConnectionLostError(f"{self.peer}: {self._reason}")

    # Writing

    def _write(self, pieces: list[Piece], size: int) -> None:
        """One write. What is little is copied together, which is cheaper; what is large is handed over as it is."""
        if self.closed or not size:
            return
        if size <= JOIN_BYTES_MAX:
            self._transport.write(b"".join(pieces))
        else:
            self._largest_write = max(size, self._largest_write if self.unsent_bytes else 0)
            self._transport.writelines(_with_small_ones_joined(pieces))
        endpoint = self._endpoint
        endpoint.write_allowance -= size
        if endpoint.write_allowance < 0:
            endpoint.weigh_unsent_soon()

    def _write_soon(self, pieces: list[Piece], size: int) -> None:
        """One write for all that callers, late answers and the short cut's small ones bring in a turn of the loop."""
        if self.closed or not size:
            return
        if not self._outbox_bytes:
            self._loop.call_soon(self._empty_outbox)
        self._outbox += pieces
        self._outbox_bytes += size
        if self._outbox_bytes > JOIN_BYTES_MAX:
            self._empty_outbox()

    def _empty_outbox(self) -> None:
        pieces, size = self._outbox, self._outbox_bytes
        if size:
            self._outbox, self._outbox_bytes = [], 0
            self._write(pieces, size)

    @property
    def unsent_bytes(self) -> int:
        """What we wrote and the peer has not taken yet."""
        return self._transport.get_write_buffer_size()

    @property
    def is_stalled(self) -> bool:
        """Whether the peer leaves so much unread that what is sent now would only wait in memory."""
        return self._resumed is not None

    @property
    def descriptor(self) -> int:
        """The socket's number."""
        number: int = self._transport.get_extra_info("socket").fileno()
        return number

    @property
    def unsent_memory(self) -> int:
        """How much memory that takes: an answer of which a part was sent is still there whole."""
        unsent = self.unsent_bytes
        return max(unsent, self._largest_write) if unsent else 0

    def _release_writers(self) -> None:
        if self._resumed is not None:
            self._resumed.set_result(None)
            self._resumed = None

    # Ending

    def close(self, reason: str) -> None:
        """Send what was written, then close. Whoever waits for an answer learns *reason* at once."""
        if not self.closed:
            self._reason = self._reason or reason
            logger.info("%s: closed: %s", self.peer, reason)
            self._empty_outbox()
            self._end()
            self._transport.close()

    def drop(self, reason: str) -> None:
        """Close now, sent or not: this peer broke a limit."""
        if not self._transport.is_closing():
            logger.warning("%s: dropped: %s", self.peer, reason)
        self._reason = self._reason or reason
        self._end()
        self._transport.abort()

    def finish(self, reason: str) -> None:
        """Answer what was asked until now, then close."""
        self._reason = self._reason or reason
        self._finishing = True
        self._finish_if_all_is_answered()

    def _finish_if_all_is_answered(self) -> None:
        if self.closed or self._answering or self._backlog:
            return
        self._empty_outbox()
        self._end()
        if self._transport.is_closing():
            return  # the peer, or the loop, was faster
        if self._transport.can_write_eof():
            with suppress(OSError):  # the peer has gone, and asyncio's own loop has not been told yet
                self._transport.write_eof()
            self._loop.call_later(LINGER_SECONDS, self._transport.close)
        else:
            self._transport.close()

    def _refuse_after_backlog(self, reason: str) -> None:
        """What came before the garbage is answered first."""
        if self._backlog:
            self._garbage = reason
        else:
            self._refuse(reason)

    def _refuse(self, reason: str) -> None:
        """The peer does not speak our protocol: nothing that follows can be understood."""
        if not self.closed:
            self._endpoint.protocol_errors += 1
            self._reason = self._reason or reason
            logger.warning("%s: closed: %s", self.peer, reason)
            self._empty_outbox()
            self._end()
            self._transport.close()

    def _end(self) -> None:
        """From here on nothing is sent, and nobody waits for an answer."""
        if self.closed:
            return
        self.closed = True
        self._closing_since = self._now()
        self._decoder = FrameDecoder()  # what it held is free from here on
        self._endpoint.held_bytes -= self.held_bytes
        self.held_bytes = 0
        self._pending.fail(self._reason)

    def excuse(self, seconds: float, now: float) -> None:
        """For so long we did not run: the peer's time begins that much later."""
        self._last_active = min(now, self._last_active + seconds)
        self._frame_since = min(now, self._frame_since + seconds)
        self._stalled_since = min(now, self._stalled_since + seconds)
        self._closing_since = min(now, self._closing_since + seconds)

    def check(self, now: float) -> None:
        """Part with this peer if it used up its time. The endpoint asks from time to time."""
        config = self._endpoint.config
        if self.closed:
            if now - self._closing_since >= config.stalled_peer_seconds:
                self._transport.abort()  # it never took our last bytes
        elif self._resumed is not None:
            if now - self._stalled_since >= config.stalled_peer_seconds:
                self.drop(f"has not read for {config.stalled_peer_seconds:g} s, {self.unsent_bytes} bytes wait for it")
        elif self.held_bytes and now - self._frame_since >= config.frame_seconds_max:
            self.drop(f"a frame is not complete after {config.frame_seconds_max:g} s")
        elif self._paused or self._pending:
            pass  # it is we who do not read, or wait for an answer, which has its own time
        elif now - self._last_active >= config.idle_seconds:
            self.close(f"idle for {config.idle_seconds:g} s")


def _with_small_ones_joined(pieces: list[Piece]) -> list[Piece]:
    """The same bytes in fewer pieces; the large ones stay what they are."""
    result: list[Piece] = []
    small: list[Piece] = []
    for piece in pieces:
        if len(piece) <= JOIN_BYTES_MAX:
            small.append(piece)
            continue
        if small:
            result.append(b"".join(small))
            small = []
        result.append(piece)
    if small:
        result.append(b"".join(small))
    return result


def _said_plainly(error: RemoteProtocolError, data: bytes) -> str:
    """A handshake record read as a length is a frame over the limit: say what it really is."""
    return "speaks TLS, but this port is plain" if data[:2] == b"\x16\x03" else str(error)
