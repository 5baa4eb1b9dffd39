"""One connection of a client: HTTP/2 on a transport, its calls, and the pace at which they are answered.

Bytes and streams are `http2/connection.py`'s, which is pure; here are the transport, tasks and clocks.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final, cast

from hanabi.errors import MQError, RemoteProtocolError
from hanabi.grpc.backend.peer import Peer
from hanabi.grpc.calls.support.context import call_context
from hanabi.grpc.calls.support.method import Form, Method
from hanabi.grpc.calls.support.names import set_status
from hanabi.grpc.http2.connection import ServerConnection
from hanabi.grpc.http2.stream import Stream
from hanabi.grpc.proto.messages import Proto, message_class, parse
from hanabi.grpc.proto.numbers import Code, RpcStatus
from hanabi.grpc.proto.table import SERVICE
from hanabi.grpc.rules.faults import delay_of, fault_of
from hanabi.grpc.serving.call import Call, CallOutlet, TooLarge
from hanabi.grpc.serving.replies import HEAD, NOT_GRPC, TRAILERS_OK, only_trailers, prefixed, trailers
from hanabi.remoting.certificate import names_in

if TYPE_CHECKING:
    from hanabi.grpc.serving.server import GrpcServer

_UNREAD: Final = "the client leaves too many replies unread"

logger = logging.getLogger(__name__)


class GrpcConnection(asyncio.Protocol):
    """One connection. It tells *server* when it begins and ends."""

    def __init__(self, server: "GrpcServer", peer: str) -> None:
        self._server, self._limits, self._methods = server, server.limits, server.methods
        self.peer_text = peer
        self.peer = Peer(peer, lambda: self.is_stalled, cut=self.abort, hold=self.hold)
        self._http2 = ServerConnection(self, server.limits.http2)
        self._transport: asyncio.Transport | None = None
        self._own_address = ("", 0)
        self._is_paused = False  # the transport has enough to send
        self._held: asyncio.TimerHandle | None = None  # until its account may take more
        self._is_receiving = False
        self._is_flush_due = False
        self._buffered = 0  # bytes of incomplete requests
        self._idle_since = time.monotonic()
        self._progress = (0, time.monotonic())  # bytes that wait, and since when there are not fewer

    # Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("sockname")
        self._own_address = (str(name[0]), int(name[1])) if name else ("", 0)
        if certificate := transport.get_extra_info("peercert"):
            self.peer.certificate_names = names_in(certificate)
        self._server.opened(self)
        self.flush()

    def data_received(self, data: bytes) -> None:
        """Process bytes of the client."""
        self._is_receiving = True
        try:
            self._http2.receive(data, time.monotonic())
        finally:
            self._is_receiving = False
        self.flush()
        if self._http2.is_closed:
            logger.debug("%s: closed: %s", self.peer_text, self._http2.close_reason)
            self._close()

    def eof_received(self) -> bool:
        """Close: a client that sends no more needs no replies."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """End all calls."""
        self._transport = None
        if self._held is not None:
            self._held.cancel()
        self._http2.drop_streams()
        self.peer.closed = True
        self._server.closed(self)

    def pause_writing(self) -> None:
        """Read no more until the client has read."""
        self._is_paused = True
        self._pause_reading()

    def resume_writing(self) -> None:
        """Go on."""
        self._is_paused = False
        self._read_on()

    def hold(self, seconds: float) -> None:
        """Read no more for so long. Calls that were read already go on."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        if self._held is not None:
            until = max(until, self._held.when())
            self._held.cancel()
        self._held = loop.call_at(until, self._let_go)
        self._pause_reading()

    def _let_go(self) -> None:
        self._held = None
        self._read_on()

    def _pause_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def _read_on(self) -> None:
        """Go on reading, if all that stopped it is over."""
        transport = self._transport
        if transport is not None and not transport.is_closing() and not self._is_paused and self._held is None:
            transport.resume_reading()

    @property
    def is_stalled(self) -> bool:
        """True while the client leaves so much unread that more would only wait in memory."""
        return self._is_paused or self._http2.waiting_bytes > self._limits.unread_bytes_max

    @property
    def _is_full(self) -> bool:
        """True if no call is answered any more: replies would fill memory. Messages are refused earlier."""
        return self._http2.waiting_bytes > 2 * self._limits.unread_bytes_max

    def flush(self) -> None:
        """Write what there is for the client."""
        self._is_flush_due = False
        if self._transport is not None and (output := self._http2.take_output()):
            self._transport.write(output)

    def _flush_soon(self) -> None:
        """Write at the end of this turn of the loop; a read that is under way writes by itself."""
        if not self._is_receiving and not self._is_flush_due:
            self._is_flush_due = True
            asyncio.get_running_loop().call_soon(self.flush)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Cut the connection."""
        if self._transport is not None:
            self._transport.abort()

    def leave(self) -> None:
        """Tell the client that no new calls are accepted."""
        self._http2.leave()
        self.flush()

    def finish(self, reason: str) -> None:
        """End the connection."""
        self._http2.close(reason)
        self.flush()
        self._close()

    def check(self, now: float) -> None:
        """Close the connection if its client is idle, or reads nothing. Call it every few seconds."""
        transport = self._transport
        if transport is None:
            return
        if self._http2.streams:
            self._idle_since = now
        elif now - self._idle_since > self._limits.idle_seconds:
            self.finish("no calls for a long time")
            return
        waiting = self._http2.waiting_bytes + transport.get_write_buffer_size()
        least, since = self._progress
        if not least or waiting < least:
            self._progress = waiting, now
        elif now - since > self._limits.stalled_seconds:
            logger.warning("%s: cut off: %d bytes wait for it, it reads nothing", self.peer_text, waiting)
            self.abort()

    # Calls of HTTP/2

    def opened(self, stream: Stream) -> None:
        """Begin a call."""
        metadata = dict(stream.fields)
        if not metadata.get("content-type", "").startswith("application/grpc") or metadata.get(":method") != "POST":
            self._http2.finish(stream, NOT_GRPC)
            return
        path = metadata.get(":path", "")
        method = self._methods.get(path[len(SERVICE) :]) if path.startswith(SERVICE) else None
        if method is None:
            self._http2.finish(stream, only_trailers(RpcStatus.UNIMPLEMENTED, f"there is no method {path[:200]}"))
            return
        stream.fields = []
        call = stream.call = Call(method, stream, call_context(metadata, self.peer, self._own_address))
        if method.form is Form.BOTH_WAYS:
            self._converse(call)

    def received(self, stream: Stream, data: bytes) -> None:
        """Take a part of a request."""
        call: Call | None = stream.call
        if call is None:
            return
        before = len(call.buffer)
        if not self._server.memory.take(len(data)):
            self._fail(call, RpcStatus.RESOURCE_EXHAUSTED, "too many bytes of incomplete requests wait at this server")
            return
        self._buffered += len(data)
        try:
            complete = call.take(data, self._limits.request_bytes_max)
        except TooLarge as error:
            self._fail(call, RpcStatus.RESOURCE_EXHAUSTED, str(error))
            return
        except RemoteProtocolError as error:
            self._fail(call, RpcStatus.UNIMPLEMENTED, str(error))
            return
        self._give_back(before + len(data) - len(call.buffer))
        if call.conversation is not None:
            for message in complete:
                self._say(call, message)
        elif complete:
            call.messages += complete
            if len(call.messages) > 1:
                self._fail(call, RpcStatus.INTERNAL, "this method takes one message")

    def ended(self, stream: Stream) -> None:
        """Run a call whose request is complete."""
        call: Call | None = stream.call
        if call is None:
            return
        if call.conversation is not None:
            call.conversation.ended()
            self._end(call, RpcStatus.OK, "")
        elif len(call.messages) != 1:
            self._fail(call, RpcStatus.INTERNAL, "the request ends before its message does")
        elif self._is_full:
            self._fail(call, RpcStatus.RESOURCE_EXHAUSTED, _UNREAD)
        else:
            self._run(call, call.messages.pop())

    def cancelled(self, stream: Stream) -> None:
        """End a call that the client does not wait for."""
        call: Call | None = stream.call
        if call is not None:
            self._drop(call)

    def _give_back(self, size: int) -> None:
        self._server.memory.give_back(size)
        self._buffered -= size

    def _drop(self, call: Call) -> None:
        """Free what a call has; its stream is gone."""
        call.stream.call = None
        self._give_back(len(call.buffer))
        call.buffer.clear()
        if call.task is not None:
            call.task.cancel()
            call.task = None
        if call.conversation is not None:
            conversation, call.conversation = call.conversation, None
            conversation.ended()

    # Running

    def _run(self, call: Call, data: bytes) -> None:
        method = call.method
        try:
            request = parse(method.request, data)
        except RemoteProtocolError as error:
            self._fail(call, RpcStatus.INTERNAL, str(error))
            return
        call.context.request_bytes = len(data)
        call.task = asyncio.create_task(self._answer(call, method, request))

    async def _answer(self, call: Call, method: Method, request: Proto) -> None:
        try:
            answer = method.handle(request, call.context)
            replies = await answer if isinstance(answer, Awaitable) else answer
        except MQError as error:
            if seconds := delay_of(error):
                await asyncio.sleep(seconds)
            replies = _refusal(method, *fault_of(error))
        except Exception as error:
            logger.exception("call %s from %s failed", method.name, self.peer_text)
            replies = _refusal(method, Code.INTERNAL_SERVER_ERROR, f"{method.name} failed: {type(error).__name__}")
        call.task = None
        if call.stream.call is not call:
            return
        call.stream.call = None
        self._http2.start(call.stream, HEAD)
        size = 0
        for reply in replies if isinstance(replies, list) else (replies,):
            data = reply.SerializeToString()
            size += len(data)
            self._http2.send(call.stream, prefixed(data))
        if call.context.meter is not None:
            call.context.meter.charge_out(size)
        self._http2.finish(call.stream, TRAILERS_OK)
        self._idle_since = time.monotonic()
        self._flush_soon()

    def _converse(self, call: Call) -> None:
        stream = call.stream

        def send(message: Any) -> None:
            if stream.call is call:
                self._start(call)
                self._http2.send(stream, prefixed(message.SerializeToString()))
                self._flush_soon()

        def end(status: RpcStatus, text: str) -> None:
            if stream.call is call:
                self._end(call, status, text)

        self._start(call)  # at once: some clients wait for it
        call.conversation = call.method.handle(call.context, CallOutlet(send, end, stream))

    def _say(self, call: Call, data: bytes) -> None:
        if self._is_full:
            self._fail(call, RpcStatus.RESOURCE_EXHAUSTED, _UNREAD)
            return
        try:
            message = parse(call.method.request, data)
        except RemoteProtocolError as error:
            self._fail(call, RpcStatus.INTERNAL, str(error))
            return
        if call.conversation is not None:
            call.conversation.received(message)

    def _start(self, call: Call) -> None:
        if not call.is_started:
            call.is_started = True
            self._http2.start(call.stream, HEAD)

    def _end(self, call: Call, status: RpcStatus, text: str) -> None:
        """End the reply of a call, and the call."""
        stream = call.stream
        block = trailers(status, text) if call.is_started else only_trailers(status, text)
        self._drop(call)
        self._http2.finish(stream, block)
        self._flush_soon()

    def _fail(self, call: Call, status: RpcStatus, text: str) -> None:
        self._end(call, status, text)


def _refusal(method: Method, code: Code, text: str) -> Any:
    reply = message_class(method.reply)()
    set_status(reply.status, code, text)
    return [reply] if method.form is Form.STREAM else reply
