"""The server's side of HTTP/2 without sockets: rules, flow control, and peers that abuse it."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanabi.grpc.http2 import hpack
from hanabi.grpc.http2.connection import ServerConnection
from hanabi.grpc.http2.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    HEAD,
    PADDED,
    PREFACE,
    U32,
    Fault,
    Kind,
    Setting,
    frame,
    settings_frame,
    window_update,
)
from hanabi.grpc.http2.limits import Limits
from hanabi.grpc.http2.stream import Stream

FIELDS = [(":method", "POST"), (":path", "/x")]
BLOCK = hpack.encode(FIELDS)


class Log:
    """Notes what the connection tells."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int, bytes]] = []
        self.streams: dict[int, Stream] = {}

    def opened(self, stream: Stream) -> None:
        self.streams[stream.id] = stream
        self.events.append(("opened", stream.id, b""))

    def received(self, stream: Stream, data: bytes) -> None:
        self.events.append(("received", stream.id, data))

    def ended(self, stream: Stream) -> None:
        self.events.append(("ended", stream.id, b""))

    def cancelled(self, stream: Stream) -> None:
        self.events.append(("cancelled", stream.id, b""))


def frames(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    while data:
        high, low, kind, flags, stream_id = HEAD.unpack_from(data)
        length = high << 8 | low
        yield kind, flags, stream_id, data[9 : 9 + length]
        data = data[9 + length :]


def connected(limits: Limits | None = None, *, window: int = 65_535) -> tuple[ServerConnection, Log]:
    log = Log()
    connection = ServerConnection(log, limits or Limits())
    connection.receive(PREFACE + settings_frame({Setting.INITIAL_WINDOW_SIZE: window}), 0.0)
    connection.take_output()
    return connection, log


def headers(stream_id: int, flags: int = 0, block: bytes = BLOCK) -> bytes:
    return frame(Kind.HEADERS, END_HEADERS | flags, stream_id, block)


def fault_of(connection: ServerConnection) -> Fault:
    assert connection.is_closed
    (payload,) = [payload for kind, _, _, payload in frames(connection.take_output()) if kind == Kind.GOAWAY]
    return Fault(U32.unpack_from(payload, 4)[0])


def test_a_request_is_told_in_its_parts_and_answered() -> None:
    connection, log = connected()
    connection.receive(headers(1) + frame(Kind.DATA, 0, 1, b"ab") + frame(Kind.DATA, END_STREAM, 1, b"c"), 0.0)
    assert log.events == [("opened", 1, b""), ("received", 1, b"ab"), ("received", 1, b"c"), ("ended", 1, b"")]
    assert log.streams[1].fields == FIELDS
    connection.start(log.streams[1], b"\x88")
    connection.send(log.streams[1], b"reply")
    connection.finish(log.streams[1], b"\x88")
    assert list(frames(connection.take_output())) == [
        (Kind.HEADERS, END_HEADERS, 1, b"\x88"),
        (Kind.DATA, 0, 1, b"reply"),
        (Kind.HEADERS, END_HEADERS | END_STREAM, 1, b"\x88"),
    ]
    assert not connection.streams


@given(st.lists(st.integers(1, 40), max_size=60))
def test_the_pieces_in_which_bytes_arrive_do_not_matter(sizes: list[int]) -> None:
    data = PREFACE + settings_frame({}) + headers(1) + frame(Kind.DATA, PADDED | END_STREAM, 1, b"\x02xyz\0\0")
    log = Log()
    connection = ServerConnection(log, Limits())
    for size in sizes:
        connection.receive(data[:size], 0.0)
        data = data[size:]
    connection.receive(data, 0.0)
    assert log.events == [("opened", 1, b""), ("received", 1, b"xyz"), ("ended", 1, b"")]


@settings(max_examples=300)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 11),
            st.integers(0, 255),
            st.sampled_from([0, 1, 2, 3, 5, 99, 2**31 - 1]),
            st.binary(max_size=40),
        ),
        max_size=12,
    )
)
def test_any_frames_are_served_or_end_the_connection(parts: list[tuple[int, int, int, bytes]]) -> None:
    connection, _ = connected()
    connection.receive(headers(1), 0.0)
    for part in parts:
        connection.receive(frame(*part), 0.0)
    for stream in list(connection.streams.values()):
        connection.start(stream, b"\x88")
        connection.finish(stream, b"\x88")
    list(frames(connection.take_output()))
    assert not connection.streams
    assert connection.waiting_bytes == 0


def test_a_reply_waits_for_windows_of_one_byte_and_arrives_whole() -> None:
    connection, log = connected(window=1)
    connection.receive(headers(1, END_STREAM), 0.0)
    connection.start(log.streams[1], b"\x88")
    connection.send(log.streams[1], b"hello")
    connection.finish(log.streams[1], b"\x88")
    got = b""
    for _ in range(10):
        for kind, flags, _, payload in frames(connection.take_output()):
            got += payload if kind == Kind.DATA else b""
            is_last = kind == Kind.HEADERS and flags & END_STREAM
        connection.receive(window_update(1, 1), 0.0)
    assert got == b"hello"
    assert is_last
    assert connection.waiting_bytes == 0


def test_a_smaller_window_of_all_streams_counts_for_those_that_are_open() -> None:
    connection, log = connected(window=100)
    connection.receive(headers(1, END_STREAM) + settings_frame({Setting.INITIAL_WINDOW_SIZE: 10}), 0.0)
    connection.take_output()
    connection.send(log.streams[1], b"x" * 50)
    assert [len(payload) for kind, _, _, payload in frames(connection.take_output()) if kind == Kind.DATA] == [10]
    assert connection.waiting_bytes == 40


def test_long_replies_of_several_streams_share_the_window_of_the_connection() -> None:
    connection, log = connected(window=1 << 20)
    connection.receive(headers(1, END_STREAM) + headers(3, END_STREAM), 0.0)
    connection.take_output()
    for stream_id in (1, 3):
        connection.send(log.streams[stream_id], b"x" * 60_000)
        connection.finish(log.streams[stream_id], b"\x88")
    first = list(frames(connection.take_output()))
    assert sum(len(payload) for kind, _, _, payload in first if kind == Kind.DATA) == 65_535
    assert max(len(payload) for _, _, _, payload in first) <= 16_384
    connection.receive(window_update(0, 100_000), 0.0)
    assert not connection.streams


def test_a_ping_is_answered_with_its_eight_bytes() -> None:
    connection, _ = connected()
    connection.receive(frame(Kind.PING, 0, 0, b"12345678"), 0.0)
    assert list(frames(connection.take_output())) == [(Kind.PING, ACK, 0, b"12345678")]


def test_a_reset_cancels_the_call() -> None:
    connection, log = connected()
    connection.receive(headers(1) + frame(Kind.RST_STREAM, 0, 1, U32.pack(8)), 0.0)
    assert log.events[-1] == ("cancelled", 1, b"")
    assert not connection.streams


def test_rapid_resets_end_the_connection() -> None:
    connection, _ = connected(Limits(resets=100))
    for number in range(1, 1_000, 2):
        connection.receive(headers(number) + frame(Kind.RST_STREAM, 0, number, U32.pack(8)), 0.0)
    assert fault_of(connection) is Fault.ENHANCE_YOUR_CALM


def test_resets_at_a_modest_rate_are_served_for_ever() -> None:
    connection, _ = connected(Limits(resets=100))
    for number in range(1, 20_000, 2):
        connection.receive(headers(number) + frame(Kind.RST_STREAM, 0, number, U32.pack(8)), number / 20)
    assert not connection.is_closed


def test_a_flood_of_continuations_ends_the_connection() -> None:
    connection, _ = connected()
    connection.receive(frame(Kind.HEADERS, 0, 1, BLOCK), 0.0)
    for _ in range(100):
        connection.receive(frame(Kind.CONTINUATION, 0, 1, b""), 0.0)
    assert fault_of(connection) is Fault.ENHANCE_YOUR_CALM


def test_header_fields_of_megabytes_end_the_connection() -> None:
    connection, _ = connected()
    connection.receive(frame(Kind.HEADERS, 0, 1, b"\x00\x01n\x7f\xff\xff\x7f" + b"v" * 16_000), 0.0)
    for _ in range(4):
        connection.receive(frame(Kind.CONTINUATION, 0, 1, b"v" * 16_384), 0.0)
    assert fault_of(connection) is Fault.ENHANCE_YOUR_CALM


def test_ten_thousand_streams_are_refused_above_the_limit_and_then_end_the_connection() -> None:
    connection, log = connected(Limits(streams_max=100, resets=1_000))
    for number in range(1, 20_001, 2):
        connection.receive(headers(number), 0.0)
    assert len(log.streams) == 100
    kinds = [kind for kind, _, _, _ in frames(connection.take_output())]
    assert kinds.count(Kind.RST_STREAM) == 1_000
    assert kinds[-1] == Kind.GOAWAY
    assert [name for name, _, _ in log.events].count("cancelled") == 100


@pytest.mark.parametrize(
    "data",
    [
        frame(Kind.PING, 0, 0, b"12345678"),
        settings_frame({}),
        frame(Kind.PRIORITY, 0, 1, b"12345"),
        frame(77, 0, 0, b""),
        headers(1)[:0] + frame(Kind.DATA, 0, 1, b""),
    ],
    ids=["ping", "settings", "priority", "unknown", "empty data"],
)
def test_a_flood_of_frames_that_carry_nothing_ends_the_connection(data: bytes) -> None:
    connection, _ = connected(Limits(idle_frames=50))
    connection.receive(headers(1), 0.0)
    for _ in range(100):
        connection.receive(data, 0.0)
    assert fault_of(connection) is Fault.ENHANCE_YOUR_CALM


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (frame(Kind.DATA, 0, 7, b"x"), Fault.PROTOCOL_ERROR),
        (frame(Kind.DATA, 0, 0, b"x"), Fault.PROTOCOL_ERROR),
        (headers(2), Fault.PROTOCOL_ERROR),
        (headers(0), Fault.PROTOCOL_ERROR),
        (frame(Kind.PUSH_PROMISE, 0, 1, b"1234"), Fault.PROTOCOL_ERROR),
        (frame(Kind.CONTINUATION, 0, 1, b""), Fault.PROTOCOL_ERROR),
        (frame(Kind.HEADERS, 0, 1, BLOCK) + frame(Kind.PING, 0, 0, b"12345678"), Fault.PROTOCOL_ERROR),
        (frame(Kind.PING, 0, 0, b"1"), Fault.FRAME_SIZE_ERROR),
        (frame(Kind.PING, 0, 1, b"12345678"), Fault.PROTOCOL_ERROR),
        (frame(Kind.SETTINGS, 0, 0, b"12345"), Fault.FRAME_SIZE_ERROR),
        (frame(Kind.SETTINGS, 0, 1, b""), Fault.PROTOCOL_ERROR),
        (settings_frame({Setting.INITIAL_WINDOW_SIZE: 2**31}), Fault.FLOW_CONTROL_ERROR),
        (settings_frame({Setting.MAX_FRAME_SIZE: 1}), Fault.PROTOCOL_ERROR),
        (window_update(0, 0), Fault.FLOW_CONTROL_ERROR),
        (window_update(0, 2**31 - 1), Fault.FLOW_CONTROL_ERROR),
        (window_update(9, 1), Fault.PROTOCOL_ERROR),
        (frame(Kind.RST_STREAM, 0, 9, U32.pack(8)), Fault.PROTOCOL_ERROR),
        (frame(Kind.HEADERS, END_HEADERS | PADDED, 1, b"\x09x"), Fault.PROTOCOL_ERROR),
        (headers(1, block=b"\xff\xff"), Fault.COMPRESSION_ERROR),
        (headers(3) + frame(Kind.RST_STREAM, 0, 3, U32.pack(8)) + headers(3), Fault.STREAM_CLOSED),
        (HEAD.pack(0x1000, 0, 0, 0, 1), Fault.FRAME_SIZE_ERROR),
    ],
)
def test_a_broken_rule_ends_the_connection_with_its_code(data: bytes, fault: Fault) -> None:
    connection, _ = connected()
    connection.receive(data, 0.0)
    assert fault_of(connection) is fault


def test_data_beyond_the_window_resets_the_stream_and_serves_the_others() -> None:
    connection, log = connected(Limits(stream_window_bytes=1_000))
    connection.receive(headers(1) + headers(3) + frame(Kind.DATA, 0, 1, b"x" * 1_001), 0.0)
    assert ("cancelled", 1, b"") in log.events
    connection.receive(frame(Kind.DATA, END_STREAM, 3, b"y"), 0.0)
    assert log.events[-1] == ("ended", 3, b"")


def test_another_protocol_is_refused_at_its_first_bytes() -> None:
    connection = ServerConnection(Log(), Limits())
    connection.receive(b"GET / HTTP/1.1\r\n", 0.0)
    assert fault_of(connection) is Fault.PROTOCOL_ERROR
