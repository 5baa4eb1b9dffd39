"""Frames of controller mode, whole and in pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.errors import RemoteProtocolError
from hanabi.replication.autoswitch.epochs import Epoch
from hanabi.replication.autoswitch.wire import (
    Hello,
    LabelledPiece,
    MasterEpochs,
    MasterParser,
    SlaveParser,
    encode_epochs,
    encode_hello,
    encode_piece_header,
    encode_report,
)


def test_the_frames_have_the_sizes_of_apaches() -> None:
    assert encode_hello(Hello(False, True, 7)) == bytes.fromhex("00000001000000010000000000000007")
    assert encode_report(9) == bytes.fromhex("000000020000000000000009")
    assert len(encode_epochs(5, [Epoch(1, 0), Epoch(2, 3)])) == 20 + 24
    assert len(encode_piece_header(1, 2, Epoch(3, 4), 5)) == 36


@given(st.integers(1, 40))
def test_a_masters_frames_come_out_as_they_went_in_however_they_are_cut(step: int) -> None:
    data = encode_epochs(500, [Epoch(1, 0), Epoch(2, 100)])
    data += encode_piece_header(100, 5, Epoch(2, 100), 100) + b"hello" + encode_piece_header(105, 0, Epoch(2, 100), 105)
    parser, frames = MasterParser(), list[MasterEpochs | LabelledPiece]()
    for at in range(0, len(data), step):
        frames += parser.feed(memoryview(data[at : at + step]))
    assert frames[0] == MasterEpochs(500, (Epoch(1, 0), Epoch(2, 100)))
    pieces = [frame for frame in frames if isinstance(frame, LabelledPiece)]
    assert b"".join(piece.data for piece in pieces) == b"hello"
    assert (pieces[-1].offset, pieces[-1].confirmed) == (105, 105)


@given(st.integers(1, 20))
def test_a_slaves_frames_come_out_as_they_went_in_however_they_are_cut(step: int) -> None:
    data = encode_hello(Hello(True, False, 3)) + encode_report(0) + encode_report(77)
    parser, frames = SlaveParser(), list[Hello | int]()
    for at in range(0, len(data), step):
        frames += parser.feed(data[at : at + step])
    assert frames == [Hello(True, False, 3), 0, 77]


def test_other_protocols_are_refused() -> None:
    with pytest.raises(RemoteProtocolError):
        SlaveParser().feed(b"GET / HTTP/1.1")
    with pytest.raises(RemoteProtocolError):
        list(MasterParser().feed(memoryview(b"HTTP/1.1 200 OK")))
    with pytest.raises(RemoteProtocolError):
        list(MasterParser().feed(memoryview(encode_piece_header(0, -1, Epoch(1, 0), 0))))
