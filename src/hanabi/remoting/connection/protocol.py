"""One connection: frames in, frames out. The same class stands on both sides, as either may ask.

All frames of one read are handled in one turn and answered with one write. After `turn_seconds_max` the remaining
frames wait for the next loop iteration. A request costs no task unless its handler has to wait.

    dispatch     which handler answers a request           writing      bytes out, and a peer that does not read them
    answering    handlers that are not done yet            requests     requests that we send
    replies      replies as bytes                          deadlines    idle, stalled and silent peers

If the connection is lost, handlers that still wait are cancelled: a handler that awaits a shared future shields it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any, cast

from hanabi.errors import RemoteProtocolError, TransportError
from hanabi.remoting.certificate import names_in
from hanabi.remoting.connection import liveness
from hanabi.remoting.connection.answering import Answering
from hanabi.remoting.connection.deadlines import Deadlines
from hanabi.remoting.connection.dispatch import FastPath, Reply, dispatch
from hanabi.remoting.connection.endpoint import Endpoint
from hanabi.remoting.connection.replies import append_reply
from hanabi.remoting.connection.requests import OutgoingRequests
from hanabi.remoting.connection.writing import Piece, Writer
from hanabi.remoting.loop import writes_are_cheap
from hanabi.wire.codes import Flag, ResponseCode, request_name
from hanabi.wire.command import Command, decode_command
from hanabi.wire.frame import FrameDecoder, encode_frame
from hanabi.wire.header import Header

logger = logging.getLogger(__name__)

# Fast path replies up to this size are sent at the end of the turn, together with those to other connections: the
# sender pays for waking a peer, and a peer with several connections is then woken once. A larger one goes at once, so
# that the peer works on it meanwhile.
SOON_BYTES_MAX = 4 * 1024
LINGER_SECONDS = 0.25  # for the peer to close after our last answer; to close first could reset it unread
NOT_NOW = -1  # in place of the size of an answer
RESPONSE, ONEWAY = int(Flag.RESPONSE), int(Flag.ONEWAY)


class Connection(asyncio.Protocol):
    """Reading, dispatch and the end of one connection.

    Invariant: while the peer does not read, too many handlers wait, replies take too much memory, or other connections
    have their turn, nothing is read from it, and whole frames wait in the backlog, which is empty otherwise.

    `peer` is its address: as we asked for it if we connected, as the socket has it if the peer did.
    `closed` says that nothing can be sent any more; the peer may not know it yet.
    `held_bytes` are those of an incomplete frame, as last told to the endpoint.
    """

    __slots__ = (  # faster than an instance dictionary, and smaller
        "__weakref__",  # other tables keep entries for as long as a connection lives
        "_answering",
        "_backlog",
        "_deadlines",
        "_decoder",
        "_finishing",
        "_garbage",
        "_gives_way",
        "_handlers",
        "_header_max",
        "_logged_unheard",
        "_loop",
        "_now",
        "_paused",
        "_reason",
        "_requests",
        "_transport",
        "_turn",
        "_turn_ends",
        "_turn_seconds",
        "_unsent_max",
        "_writer",
        "certificate_names",
        "closed",
        "endpoint",
        "held_bytes",
        "peer",
    )

    def __init__(self, endpoint: Endpoint, peer: str) -> None:
        config = endpoint.config
        self.peer = peer
        self.certificate_names: tuple[str, ...] = ()  # of the peer's certificate, if TLS has verified one
        self.closed = False
        self.held_bytes = 0
        self.endpoint = endpoint
        self._handlers = endpoint.handlers
        self._unsent_max = config.write_buffer_bytes_max
        self._header_max = config.header_bytes_max
        self._turn_seconds = config.turn_seconds_max
        self._decoder = FrameDecoder(config.frame_bytes_max)
        self._paused = False  # frames go to the backlog, and are not read any more
        self._backlog: list[bytes] = []
        self._gives_way = False  # until the loop has been around once
        self._turn = 0.0  # the loop's time when this turn began, and the real time when it must end
        self._turn_ends = 0.0
        self._garbage = ""  # why nothing that follows the backlog can be understood
        self._reason = ""
        self._finishing = False
        self._logged_unheard = False

    # What the loop tells us

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._writer = Writer(self._transport, self._loop, self.endpoint)
        self._answering = Answering(self.endpoint, self._loop, self._writer)
        self._requests = OutgoingRequests(
            self.peer,
            self._loop,
            self._writer,
            self.endpoint.config.pending_requests_max,
            self._unanswered,
            writes_are_cheap=writes_are_cheap(self._loop, self._transport),
        )
        self._deadlines = Deadlines(self._now())
        if certificate := self._transport.get_extra_info("peercert"):
            self.certificate_names = names_in(certificate)
        if (own := self._transport.get_extra_info("socket")) is not None:
            with suppress(OSError):  # the peer has gone already: the loop is about to say so
                liveness.watch(own, self.endpoint.config.idle_seconds)
        self.endpoint.joined(self)

    def data_received(self, data: bytes) -> None:
        if self.closed:
            return
        now = self._deadlines.last_active = self._now()
        if now != self._turn:  # uvloop may read many times in a turn, in which its clock stands still
            self._turn = now
            self._turn_ends = monotonic() + self._turn_seconds
        fast_path, answered = self.endpoint.fast_path, 0
        try:
            if fast_path is not None and not (self._paused or self._finishing or self.endpoint.writes_too_much):
                data, answered = self._answer_fast(fast_path, self._decoder.joined(data))
            frames = self._decoder.feed(data) if data else []
        except RemoteProtocolError as error:
            self._refuse_after_backlog(_said_plainly(error, data))
            return
        if self._finishing:
            self._take_responses(frames)
        else:
            if self.endpoint.writes_too_much and not self._paused:
                self._give_way()
            if frames and (frames_now := self._for_this_turn(frames, answered)):
                self._handle(frames_now)
        if self.held_bytes or self._decoder.buffered_bytes:
            self._account(bool(answered or frames))

    def eof_received(self) -> None:
        self._writer.flush()  # the loop closes the connection next, and the peer may still read

    def pause_writing(self) -> None:
        self._deadlines.stalled_since = self._now()
        self._writer.stall()
        self.pause_reading()

    def resume_writing(self) -> None:
        self._writer.release()
        self._catch_up()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._reason:
            self._reason = (f"connection lost: {error}" if error else "closed by the peer") + self._hint()
            if self._decoder.buffered_bytes and not self._finishing:
                self.endpoint.protocol_errors += 1
                logger.warning("%s: %s in the middle of a frame", self.peer, self._reason)
            else:
                logger.debug("%s: %s", self.peer, self._reason)
        self._end()
        self._writer.release()
        self._backlog.clear()
        self.endpoint.left(self, self._answering.waiting)

    def _hint(self) -> str:
        """Return a hint for a connection that the server ends without a reply: most often only one side has TLS."""
        if not self.endpoint.drops_silent or not self._deadlines.is_unheard:
            return ""
        if self._transport.get_extra_info("sslcontext") is None:
            return ", before it answered anything. This connection is plain: does the port take TLS only?"
        return ", before it answered anything. Does it want a client certificate (tls.client.certPath)?"

    # Requests and answers that arrive

    def _answer_fast(self, fast_path: FastPath, data: bytes) -> tuple[bytes, int]:
        """Let the fast path answer what it can of *data*; return what is left, and how many frames were answered."""
        answered = 0
        while data:
            answers, taken, counts = fast_path(data, self)
            if not taken:
                break
            answered += sum(counts)
            data = data[taken:]
            if isinstance(answers, bytes):
                write = self._writer.write_soon if len(answers) <= SOON_BYTES_MAX else self._writer.write
                write([answers], len(answers))
            elif answers is not None:
                self._answering.add_together(self, answers)
            if not data or self.closed or self._paused or monotonic() > self._turn_ends:
                break
        self.endpoint.requests += answered
        return data, answered

    def _answer_fast_again(self, fast_path: FastPath, frames: list[bytes]) -> list[bytes]:
        """Let the fast path go on with frames that waited for their turn; return those for the handlers.

        It takes a tenth of the handlers' time: a connection that fell behind would stay behind without it.
        """
        try:
            _, answered = self._answer_fast(fast_path, b"".join(map(encode_frame, frames)))
        except BaseException:
            self.drop("its requests cannot be answered")  # as the loop does if that fails in `data_received`
            raise
        return [] if self.closed else self._for_this_turn(frames[answered:], answered)

    def _for_this_turn(self, frames: list[bytes], answered: int) -> list[bytes]:
        """Return those of *frames* that the handlers may have now; the rest goes to the backlog.

        That is all of them, unless reading is paused or the fast path, which *answered* so many, has used up the turn.
        """
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
                self._writer.write(pieces, unsent)
                self._refuse(str(error))
                break
            if size == NOT_NOW:
                self.pause_reading()
                self._backlog = frames[handled - 1 :]
                break
            unsent += size
            if unsent > self._unsent_max:
                self._writer.write(pieces, unsent)
                pieces, unsent = [], 0
            if self.closed:
                break
            if monotonic() > self._turn_ends:
                self._give_way()
            if self._paused:
                self._backlog = frames[handled:]
                break
        if unsent:
            self._writer.write(pieces, unsent)

    def _handle_one(self, frame: bytes, pieces: list[Piece]) -> int:
        """Put the answer behind *pieces*, if it is there at once; return how many bytes that are. NOT_NOW: there is no
        space to make it, and nothing was done."""
        command = decode_command(frame, self._header_max)
        if command.flag & RESPONSE:
            self._requests.take(command)
            return 0
        handler = self._handlers.get(command.code)
        if handler is not None and handler.answer_bytes is not None:
            return self._handle_large(command, handler.answer_bytes_of(command), pieces)
        self.endpoint.requests += 1
        answer = dispatch(self._handlers, command, self)
        if type(answer) is Reply:
            return self.append_reply(pieces, command, answer)
        self._answering.add(self, command, cast(Awaitable[Reply], answer))
        return 0

    def _handle_large(self, command: Command, size: int, pieces: list[Piece]) -> int:
        """Do as `_handle_one`, for an answer that takes *size* bytes until it is written."""
        if not self._answering.take_large(self, size):
            return NOT_NOW
        self.endpoint.requests += 1
        answer = dispatch(self._handlers, command, self)
        if type(answer) is Reply:
            self._answering.give_back_large(size)
            return self.append_reply(pieces, command, answer)
        self._answering.add_large(self, command, cast(Awaitable[Reply], answer), size)
        return 0

    def go_on_if_possible(self) -> None:
        """Go on with the backlog unless something is still in the way."""
        if self._paused:
            self._catch_up()

    def answered(self) -> None:
        """Finish if that was the last answer."""
        if self._finishing:
            self._finish_if_all_is_answered()

    def pause_reading(self) -> None:
        """Read no more until `go_on_if_possible` finds nothing in the way."""
        self._paused = True
        self._transport.pause_reading()

    def hold(self, seconds: float) -> None:
        """Begin no further request of this peer for so long."""
        if not self._gives_way:
            self.pause_reading()
            self._gives_way = True
            self._loop.call_later(seconds, self._go_on)

    def _give_way(self) -> None:
        """Go on when all other connections have had a turn."""
        if self._gives_way:
            return
        self.pause_reading()
        self._gives_way = True
        self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._gives_way = False
        self._catch_up()

    def _catch_up(self) -> None:
        """Go on where we stopped, if all that stopped us is over."""
        if self.closed or self._gives_way or self._writer.resumed is not None or self._answering.is_full:
            return
        if self.endpoint.writes_too_much:
            self._give_way()
            return
        self._paused = False
        self._deadlines.last_active = self._now()
        self._turn_ends = monotonic() + self._turn_seconds
        frames, self._backlog = self._backlog, []
        if frames and self.endpoint.fast_path is not None:
            frames = self._answer_fast_again(self.endpoint.fast_path, frames)
        self._handle(frames)
        if self._garbage:
            self._refuse_after_backlog(self._garbage)
        if self._finishing:
            self._finish_if_all_is_answered()
        if not self._paused and not self.closed:
            self._transport.resume_reading()

    def append_reply(self, pieces: list[Piece], request: Command, reply: Reply) -> int:
        """Append the reply to *pieces*; return its size in bytes: 0 if the request was one-way."""
        if not request.flag & ONEWAY:
            return append_reply(pieces, request, reply, self.peer)
        if reply.code != ResponseCode.SUCCESS:
            self._log_unheard(request, reply)
        return 0

    def _log_unheard(self, request: Command, reply: Reply) -> None:
        """Log a failed one-way request: the first as a warning, so that a busy peer does not fill the log."""
        level = logging.DEBUG if self._logged_unheard else logging.WARNING
        self._logged_unheard = True
        logger.log(
            level, "%s: one-way %s failed: %s", self.peer, request_name(request.code), reply.remark or reply.code
        )

    def _take_responses(self, frames: list[bytes]) -> None:
        """While we finish, no new request is begun, but those being handled may need what they asked for."""
        for frame in frames:
            try:
                command = decode_command(frame, self._header_max)
            except RemoteProtocolError as error:
                self._refuse(str(error))
                return
            if command.flag & RESPONSE:
                self._requests.take(command)

    def _account(self, began_anew: bool) -> None:
        """Keep the endpoint's sum true, and remember when the incomplete frame began."""
        try:
            self._decoder.check()
        except RemoteProtocolError as error:
            self._refuse_after_backlog(str(error))
        endpoint, held = self.endpoint, self._decoder.buffered_bytes
        if held and (began_anew or not self.held_bytes):
            self._deadlines.frame_since = self._deadlines.last_active
        endpoint.held_bytes += held - self.held_bytes
        self.held_bytes = held
        if endpoint.held_bytes > endpoint.config.read_buffer_total_bytes_max:
            endpoint.drop_largest_frame()

    # Requests that we send

    def request(
        self, code: int, header: Header | Mapping[str, str] | None = None, body: bytes = b"", *, timeout: float
    ) -> Coroutine[Any, Any, Command]:
        """Ask the peer and return its answer, whatever its code. An error says which peer, and why not."""
        return self._requests.request(code, header, body, timeout)

    def ask_at_once(
        self,
        code: int,
        header: Header | Mapping[str, str] | None,
        body: bytes,
        timeout: float,
        ended: Callable[[Command | TransportError], None],
    ) -> bool:
        """Send a request without waiting: *ended* is called with the answer, or with the error.

        False: it cannot be written now, and *ended* is never called. `request` waits, or says why not.
        """
        return self._requests.ask_at_once(code, header, body, timeout, ended)

    def send_oneway(
        self, code: int, header: Header | Mapping[str, str] | None = None, body: bytes = b"", *, at_once: bool = False
    ) -> None:
        """Send a request that has no answer; whether the peer received it is not known.

        *at_once*: before the answer to the request that is being handled, and not with the next write.
        """
        self._requests.send_oneway(code, header, body)
        if at_once:
            self._writer.flush()

    def _unanswered(self, began: float) -> None:
        """Drop a server that has not answered a request that began then, nor sent anything for too long."""
        if not self.endpoint.drops_silent or self._paused:
            return
        silent = self._deadlines.silent_seconds(began, self._now())
        if silent >= self.endpoint.config.silent_peer_seconds and not self._has_unread():
            self.drop(f"no answer, nor anything else, for {silent:.3g} s; the next request opens a new connection")

    def _has_unread(self) -> bool:
        """Return whether bytes of the peer wait to be read, because the loop was busy."""
        own = self._transport.get_extra_info("socket")
        return own is not None and liveness.has_unread(own)

    # What is not read yet

    @property
    def unsent_bytes(self) -> int:
        """The bytes that were written and that the peer has not taken yet."""
        return self._writer.unsent_bytes

    @property
    def is_stalled(self) -> bool:
        """True while the peer leaves so much unread that further writes would only wait in memory."""
        return self._writer.resumed is not None

    @property
    def descriptor(self) -> int:
        """The socket's number."""
        number: int = self._transport.get_extra_info("socket").fileno()
        return number

    @property
    def unsent_memory(self) -> int:
        """The memory of unsent bytes: an answer of which a part was sent is still there whole."""
        return self._writer.unsent_memory

    # Ending

    def close(self, reason: str) -> None:
        """Send what was written, then close. Requests that wait for an answer fail with *reason*."""
        if not self.closed:
            self._reason = self._reason or reason
            logger.info("%s: closed: %s", self.peer, reason)
            self._writer.flush()
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
        if self.closed or self._answering.waiting or self._backlog:
            return
        self._writer.flush()
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
        """Refuse the peer's garbage when the frames before it are answered."""
        if self._backlog:
            self._garbage = reason
        else:
            self._refuse(reason)

    def _refuse(self, reason: str) -> None:
        """Close: the peer does not speak our protocol, and nothing that follows can be understood."""
        if not self.closed:
            if self.endpoint.drops_silent:  # we connected, and may have been given a wrong address
                reason = f"{reason}. Is it a RocketMQ server that answers there?"
            self.endpoint.protocol_errors += 1
            self._reason = self._reason or reason
            logger.warning("%s: closed: %s", self.peer, reason)
            self._writer.flush()
            self._end()
            self._transport.close()

    def _end(self) -> None:
        """Stop sending, and fail all requests that wait for an answer."""
        if self.closed:
            return
        self.closed = self._writer.closed = True
        self._deadlines.closing_since = self._now()
        self._decoder = FrameDecoder()  # what it held is free from here on
        self.endpoint.held_bytes -= self.held_bytes
        self.held_bytes = 0
        self._requests.fail(self._reason)

    def extend_deadlines(self, seconds: float, now: float) -> None:
        """Extend this peer's deadlines: the loop stalled for *seconds*."""
        self._deadlines.extend_deadlines(seconds, now)

    def check(self, now: float) -> None:
        """End the connection if the peer has used up its time. The endpoint calls this from time to time."""
        config, deadlines = self.endpoint.config, self._deadlines
        if self.closed:
            if now - deadlines.closing_since >= config.stalled_peer_seconds:
                self._transport.abort()  # it never took our last bytes
            return
        reason = deadlines.why_drop(
            now, config, is_stalled=self.is_stalled, unsent=self.unsent_bytes, held=self.held_bytes
        )
        if reason is not None:
            self.drop(reason)
        elif self.is_stalled or self._paused or self._requests:
            pass  # this side does not read, or waits for an answer, which has a deadline of its own
        elif now - deadlines.last_active >= config.idle_seconds:
            self.close(f"idle for {config.idle_seconds:g} s")


def _said_plainly(error: RemoteProtocolError, data: bytes) -> str:
    """Return the reason of *error*. A TLS handshake, which reads as a frame over the limit, is named as such."""
    return "speaks TLS, but this port is plain" if data[:2] == b"\x16\x03" else str(error)
