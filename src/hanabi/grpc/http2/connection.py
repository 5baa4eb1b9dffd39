"""The server's side of one HTTP/2 connection: frames in, frames out, flow control and limits. Pure.

    receive(bytes) ──> Calls.opened, received, ended, cancelled
    start, send, finish, reset ──> take_output() ──> bytes

A stream error is answered with RST_STREAM, a connection error with GOAWAY: `is_closed` is True afterwards, and the
caller closes the connection when the output is written. Trailers of requests are read and dropped, and nothing is ever
pushed.
"""

from collections.abc import Callable
from typing import Final, Protocol

from hanabi.errors import RemoteProtocolError
from hanabi.grpc.http2 import hpack
from hanabi.grpc.http2.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    FRAME_BYTES_MAX,
    HEAD,
    HEAD_BYTES,
    PADDED,
    PREFACE,
    PRIORITY_FLAG,
    SETTING,
    STREAM_MASK,
    U32,
    WINDOW_BYTES,
    WINDOW_BYTES_MAX,
    Fault,
    Kind,
    Setting,
    frame,
    settings_frame,
    window_update,
)
from hanabi.grpc.http2.limits import Allowance, Limits
from hanabi.grpc.http2.stream import Stream

_DATA, _HEADERS = int(Kind.DATA), int(Kind.HEADERS)
_PING_BYTES: Final = 8
_GOAWAY_TEXT_BYTES_MAX: Final = 256


class Calls(Protocol):
    """The user of a connection."""

    def opened(self, stream: Stream) -> None:
        """A request begins: its fields are there."""

    def received(self, stream: Stream, data: bytes) -> None:
        """A part of a request's body arrived."""

    def ended(self, stream: Stream) -> None:
        """The request is complete."""

    def cancelled(self, stream: Stream) -> None:
        """The peer, or a fault, ended the stream before its reply did."""


class ConnectionFault(Exception):
    """An error that ends the connection."""

    def __init__(self, fault: Fault, reason: str) -> None:
        super().__init__(reason)
        self.fault = fault


class ServerConnection:
    """One connection. Times are seconds of any monotonic clock."""

    def __init__(self, calls: Calls, limits: Limits) -> None:
        self._calls, self._limits = calls, limits
        self._decoder = hpack.Decoder(limits.header_list_bytes_max)
        self.streams: dict[int, Stream] = {}  # open ones; read-only for others
        self.is_closed = False
        self.close_reason = ""
        self._is_leaving = False  # GOAWAY was sent: no new streams
        self._has_preface = False
        self._input = b""
        self._output: list[bytes] = [
            settings_frame(
                {
                    Setting.MAX_CONCURRENT_STREAMS: limits.streams_max,
                    Setting.INITIAL_WINDOW_SIZE: limits.stream_window_bytes,
                    Setting.MAX_HEADER_LIST_SIZE: limits.header_list_bytes_max,
                }
            ),
            window_update(0, limits.connection_window_bytes - WINDOW_BYTES),
        ]
        self._last_id = 0
        self._receive_window = limits.connection_window_bytes
        self._received = 0  # since the last WINDOW_UPDATE
        self._send_window = WINDOW_BYTES
        self._stream_send_window = WINDOW_BYTES
        self._frame_bytes_max = FRAME_BYTES_MAX
        self._blocked: dict[int, Stream] = {}  # replies that wait for a window
        self.waiting_bytes = 0  # of those replies
        self._block: tuple[int, int, bytearray, int] | None = None  # headers under way: stream, flags, octets, frames
        self._resets, self._idle_frames = Allowance(limits.resets), Allowance(limits.idle_frames)
        self._now = 0.0
        self._readers: dict[int, Callable[[int, int, bytes], None]] = {
            Kind.DATA: self._read_data,
            Kind.HEADERS: self._read_headers,
            Kind.PRIORITY: self._read_priority,
            Kind.RST_STREAM: self._read_reset,
            Kind.SETTINGS: self._read_settings,
            Kind.PUSH_PROMISE: self._read_push,
            Kind.PING: self._read_ping,
            Kind.GOAWAY: self._read_goaway,
            Kind.WINDOW_UPDATE: self._read_window_update,
            Kind.CONTINUATION: self._read_continuation,
        }

    # Input

    def receive(self, data: bytes, now: float) -> None:
        """Process bytes of the peer; they may end anywhere."""
        if self.is_closed:
            return
        self._now = now
        buffer = self._input + data if self._input else data
        try:
            self._input = buffer[self._process(buffer) :]
        except ConnectionFault as fault:
            self._close(fault.fault, str(fault))
        except hpack.HeadersTooLarge as error:
            self._close(Fault.ENHANCE_YOUR_CALM, str(error))
        except RemoteProtocolError as error:
            self._close(Fault.COMPRESSION_ERROR, str(error))

    def _process(self, buffer: bytes) -> int:
        """Process whole frames; return their size."""
        position, end = 0, len(buffer)
        if not self._has_preface:
            if not buffer.startswith(PREFACE[: min(end, len(PREFACE))]):
                raise ConnectionFault(Fault.PROTOCOL_ERROR, "the connection does not begin as HTTP/2 does")
            if end < len(PREFACE):
                return 0
            self._has_preface, position = True, len(PREFACE)
        while end - position >= HEAD_BYTES:
            high, low, kind, flags, stream_id = HEAD.unpack_from(buffer, position)
            length = high << 8 | low
            if length > FRAME_BYTES_MAX:
                raise ConnectionFault(Fault.FRAME_SIZE_ERROR, f"a frame of {length} bytes, limit {FRAME_BYTES_MAX}")
            begin = position + HEAD_BYTES
            if end - begin < length:
                break
            position = begin + length
            if self._block is not None and kind != Kind.CONTINUATION:
                raise ConnectionFault(Fault.PROTOCOL_ERROR, "another frame within a block of header fields")
            reader = self._readers.get(kind)
            if reader is not None:
                reader(stream_id & STREAM_MASK, flags, buffer[begin:position])
            else:
                self._count_idle("frames of unknown kinds")
            if self.is_closed:
                return end
        return position

    def _count_idle(self, what: str) -> None:
        if not self._idle_frames.spend(self._now):
            raise ConnectionFault(Fault.ENHANCE_YOUR_CALM, f"too many {what}")

    def _count_reset(self, what: str) -> None:
        if not self._resets.spend(self._now):
            raise ConnectionFault(Fault.ENHANCE_YOUR_CALM, f"too many {what}")

    def _read_data(self, stream_id: int, flags: int, payload: bytes) -> None:
        size = len(payload)
        self._count_received(size)
        if not size and not flags & END_STREAM:
            self._count_idle("empty frames of data")
        stream = self.streams.get(stream_id)
        if stream is None or stream.is_ended:
            self._not_open(stream_id)
            return
        stream.receive_window -= size
        if stream.receive_window < 0:
            self._fail(stream, Fault.FLOW_CONTROL_ERROR)
            return
        if flags & PADDED:
            payload = _unpadded(payload)
        if payload:
            self._calls.received(stream, payload)
        if flags & END_STREAM:
            stream.is_ended = True
            if stream_id in self.streams:
                self._calls.ended(stream)
        elif stream_id in self.streams:
            self._count_in_stream(stream, size)

    def _count_received(self, size: int) -> None:
        self._receive_window -= size
        if self._receive_window < 0:
            raise ConnectionFault(Fault.FLOW_CONTROL_ERROR, "data beyond the connection's window")
        self._received += size
        if self._received >= self._limits.connection_window_bytes >> 1:
            self._output.append(window_update(0, self._received))
            self._receive_window += self._received
            self._received = 0

    def _count_in_stream(self, stream: Stream, size: int) -> None:
        stream.received += size
        if stream.received >= self._limits.stream_window_bytes >> 1:
            self._output.append(window_update(stream.id, stream.received))
            stream.receive_window += stream.received
            stream.received = 0

    def _not_open(self, stream_id: int) -> None:
        """Answer a frame for a stream that is closed: the peer may not know it yet."""
        if stream_id > self._last_id or not stream_id & 1:
            raise ConnectionFault(Fault.PROTOCOL_ERROR, f"a frame for stream {stream_id}, which is not open")
        self._count_reset("frames for closed streams")
        self._output.append(frame(Kind.RST_STREAM, 0, stream_id, U32.pack(Fault.STREAM_CLOSED)))

    def _read_headers(self, stream_id: int, flags: int, payload: bytes) -> None:
        if not stream_id & 1:
            raise ConnectionFault(Fault.PROTOCOL_ERROR, f"header fields for stream {stream_id}")
        if flags & PADDED:
            payload = _unpadded(payload)
        if flags & PRIORITY_FLAG:
            if len(payload) < 5:
                raise ConnectionFault(Fault.FRAME_SIZE_ERROR, "a priority of less than five bytes")
            payload = payload[5:]
        if flags & END_HEADERS:
            self._take_block(stream_id, flags, payload)
        else:
            self._block = stream_id, flags, bytearray(payload), 0

    def _read_continuation(self, stream_id: int, flags: int, payload: bytes) -> None:
        if self._block is None or self._block[0] != stream_id:
            raise ConnectionFault(Fault.PROTOCOL_ERROR, "a continuation of no block of header fields")
        _, first_flags, octets, frames = self._block
        octets += payload
        if len(octets) > self._limits.header_block_bytes_max or frames >= self._limits.continuations_max:
            raise ConnectionFault(Fault.ENHANCE_YOUR_CALM, "a block of header fields is too long")
        self._block = None if flags & END_HEADERS else (stream_id, first_flags, octets, frames + 1)
        if flags & END_HEADERS:
            self._take_block(stream_id, first_flags, bytes(octets))

    def _take_block(self, stream_id: int, flags: int, block: bytes) -> None:
        fields = self._decoder.decode(block)  # in any case: the peer's encoder has changed its table
        stream = self.streams.get(stream_id)
        if stream is not None:
            self._take_trailers(stream, flags)
            return
        if stream_id <= self._last_id:
            raise ConnectionFault(Fault.STREAM_CLOSED, f"header fields for stream {stream_id}, which is closed")
        self._last_id = stream_id
        if self._is_leaving or len(self.streams) >= self._limits.streams_max:
            if not self._is_leaving:
                self._count_reset("streams")
            self._output.append(frame(Kind.RST_STREAM, 0, stream_id, U32.pack(Fault.REFUSED_STREAM)))
            return
        stream = Stream(stream_id, fields, self._limits.stream_window_bytes, self._stream_send_window)
        self.streams[stream_id] = stream
        stream.is_ended = bool(flags & END_STREAM)
        self._calls.opened(stream)
        if stream.is_ended and stream_id in self.streams:
            self._calls.ended(stream)

    def _take_trailers(self, stream: Stream, flags: int) -> None:
        if stream.is_ended or not flags & END_STREAM:
            self._fail(stream, Fault.PROTOCOL_ERROR)
            return
        stream.is_ended = True
        self._calls.ended(stream)

    def _read_priority(self, _stream_id: int, _flags: int, payload: bytes) -> None:
        if len(payload) != 5:
            raise ConnectionFault(Fault.FRAME_SIZE_ERROR, "a priority that has not five bytes")
        self._count_idle("priorities")

    def _read_reset(self, stream_id: int, _flags: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(Fault.FRAME_SIZE_ERROR, "a reset that has not four bytes")
        if not stream_id or stream_id > self._last_id:
            raise ConnectionFault(Fault.PROTOCOL_ERROR, "a reset of a stream that was never open")
        self._count_reset("resets")
        stream = self.streams.get(stream_id)
        if stream is not None:
            self._forget(stream)
            self._calls.cancelled(stream)

    def _read_settings(self, stream_id: int, flags: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(Fault.PROTOCOL_ERROR, "settings of a stream")
        if flags & ACK:
            return
        if len(payload) % SETTING.size:
            raise ConnectionFault(Fault.FRAME_SIZE_ERROR, "settings of a wrong size")
        self._count_idle("settings")
        for number, value in SETTING.iter_unpack(payload):
            self._use_setting(number, value)
        self._output.append(frame(Kind.SETTINGS, ACK, 0))
        self._go_on()

    def _use_setting(self, number: int, value: int) -> None:
        if number == Setting.INITIAL_WINDOW_SIZE:
            if value > WINDOW_BYTES_MAX:
                raise ConnectionFault(Fault.FLOW_CONTROL_ERROR, f"a window of {value} bytes")
            change, self._stream_send_window = value - self._stream_send_window, value
            for stream in self.streams.values():
                stream.send_window += change
        elif number == Setting.MAX_FRAME_SIZE:
            if not FRAME_BYTES_MAX <= value < 1 << 24:
                raise ConnectionFault(Fault.PROTOCOL_ERROR, f"frames of {value} bytes")
            self._frame_bytes_max = min(value, 1 << 18)

    def _read_push(self, _stream_id: int, _flags: int, _payload: bytes) -> None:
        raise ConnectionFault(Fault.PROTOCOL_ERROR, "a client must not push")

    def _read_ping(self, stream_id: int, flags: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(Fault.PROTOCOL_ERROR, "a ping of a stream")
        if len(payload) != _PING_BYTES:
            raise ConnectionFault(Fault.FRAME_SIZE_ERROR, "a ping that has not eight bytes")
        if not flags & ACK:
            self._count_idle("pings")
            self._output.append(frame(Kind.PING, ACK, 0, payload))

    def _read_goaway(self, _stream_id: int, _flags: int, _payload: bytes) -> None:
        self._is_leaving = True  # the peer opens no more streams; those that are open go on

    def _read_window_update(self, stream_id: int, _flags: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(Fault.FRAME_SIZE_ERROR, "a window update that has not four bytes")
        more = U32.unpack(payload)[0] & STREAM_MASK
        if stream_id:
            self._widen(stream_id, more)
            return
        self._send_window += more
        if not more or self._send_window > WINDOW_BYTES_MAX:
            raise ConnectionFault(Fault.FLOW_CONTROL_ERROR, "a wrong update of the connection's window")
        self._go_on()

    def _widen(self, stream_id: int, more: int) -> None:
        stream = self.streams.get(stream_id)
        if stream is None:
            if stream_id > self._last_id:
                raise ConnectionFault(Fault.PROTOCOL_ERROR, f"a window of stream {stream_id}, which is not open")
            return
        stream.send_window += more
        if not more or stream.send_window > WINDOW_BYTES_MAX:
            self._fail(stream, Fault.FLOW_CONTROL_ERROR)
        elif stream.pieces:
            self._write(stream)

    # Output

    def take_output(self) -> bytes:
        """Return the bytes for the peer, each once."""
        if not self._output:
            return b""
        output = b"".join(self._output)
        self._output.clear()
        return output

    @property
    def has_output(self) -> bool:
        """True if there are bytes for the peer."""
        return bool(self._output)

    def start(self, stream: Stream, block: bytes) -> None:
        """Send the header fields of a reply, as an HPACK block."""
        self._output.append(frame(_HEADERS, END_HEADERS, stream.id, block))

    def send(self, stream: Stream, data: bytes) -> None:
        """Send a part of the reply's body, now or when the peer's windows allow it."""
        stream.pieces.append(data)
        stream.unsent_bytes += len(data)
        self.waiting_bytes += len(data)
        self._write(stream)

    def finish(self, stream: Stream, trailers: bytes) -> None:
        """End the reply with *trailers*, an HPACK block, behind what was sent."""
        stream.trailers = trailers
        self._write(stream)

    def reset(self, stream: Stream, fault: Fault) -> None:
        """End the stream without the rest of a reply."""
        if self.streams.get(stream.id) is stream:
            self._forget(stream)
            self._output.append(frame(Kind.RST_STREAM, 0, stream.id, U32.pack(fault)))

    def _write(self, stream: Stream) -> None:
        """Send what the windows allow."""
        pieces, output = stream.pieces, self._output
        while pieces:
            data = pieces[0]
            room = min(stream.send_window, self._send_window)
            if len(data) <= room and len(data) <= self._frame_bytes_max:
                pieces.popleft()
                sent = data
            elif room > 0:
                sent = data[: min(room, self._frame_bytes_max)]
                pieces[0] = data[len(sent) :]
            else:
                self._blocked[stream.id] = stream
                return
            size = len(sent)
            stream.send_window -= size
            self._send_window -= size
            stream.unsent_bytes -= size
            self.waiting_bytes -= size
            output.append(frame(_DATA, 0, stream.id, sent))
        self._blocked.pop(stream.id, None)
        if stream.trailers is not None:
            output.append(frame(_HEADERS, END_HEADERS | END_STREAM, stream.id, stream.trailers))
            self._forget(stream)
            if not stream.is_ended:  # the reply is complete, the rest of the request is not wanted
                output.append(frame(Kind.RST_STREAM, 0, stream.id, U32.pack(Fault.NO_ERROR)))

    def _go_on(self) -> None:
        """Send what waits for a window."""
        for stream in list(self._blocked.values()):
            if self._send_window <= 0:
                return
            if stream.send_window > 0:
                self._write(stream)

    def _forget(self, stream: Stream) -> None:
        self.streams.pop(stream.id, None)
        self._blocked.pop(stream.id, None)
        self.waiting_bytes -= stream.unsent_bytes
        stream.unsent_bytes = 0
        stream.pieces.clear()

    def _fail(self, stream: Stream, fault: Fault) -> None:
        self._count_reset("faults of streams")
        self.reset(stream, fault)
        self._calls.cancelled(stream)

    # Ending

    def leave(self) -> None:
        """Tell the peer that no new streams are accepted; those that are open go on."""
        if not self._is_leaving and not self.is_closed:
            self._is_leaving = True
            self._output.append(frame(Kind.GOAWAY, 0, 0, U32.pack(self._last_id) + U32.pack(Fault.NO_ERROR)))

    def close(self, reason: str) -> None:
        """End the connection and all streams."""
        self._close(Fault.NO_ERROR, reason)

    def _close(self, fault: Fault, reason: str) -> None:
        if self.is_closed:
            return
        self.is_closed, self.close_reason = True, reason
        text = reason.encode()[:_GOAWAY_TEXT_BYTES_MAX]
        self._output.append(frame(Kind.GOAWAY, 0, 0, U32.pack(self._last_id) + U32.pack(fault) + text))
        self.drop_streams()

    def drop_streams(self) -> None:
        """End all streams: the connection is lost."""
        self.is_closed = True
        for stream in list(self.streams.values()):
            self._forget(stream)
            self._calls.cancelled(stream)


def _unpadded(payload: bytes) -> bytes:
    padding = payload[0] if payload else 0
    if padding >= len(payload):
        raise ConnectionFault(Fault.PROTOCOL_ERROR, "more padding than payload")
    return payload[1 : len(payload) - padding]
