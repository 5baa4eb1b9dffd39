"""Framing: what comes out depends on the bytes alone, not on how they arrived."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.errors import RemoteProtocolError
from hanabi.wire.frame import FRAME_BYTES_MAX, FrameDecoder, encode_frame
from tests.golden_frames import ALL_FRAMES

GOLDEN_STREAM = b"".join(golden.frame for golden in ALL_FRAMES)
GOLDEN_CONTENTS = [golden.frame[4:] for golden in ALL_FRAMES]


def feed_cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    """Feed *stream* in the pieces between *cuts*; return all frames."""
    decoder = FrameDecoder()
    edges = [0, *sorted(cuts), len(stream)]
    pieces = (stream[start:end] for start, end in pairwise(edges))
    frames = [frame for piece in pieces for frame in decoder.feed(piece)]
    assert decoder.buffered_bytes == 0
    return frames


@given(st.lists(st.integers(0, len(GOLDEN_STREAM)), max_size=30))
def test_golden_frames_are_the_same_wherever_the_stream_is_cut(cuts: list[int]) -> None:
    assert feed_cut(GOLDEN_STREAM, cuts) == GOLDEN_CONTENTS


@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 4, 5, 64, 1000])
def test_golden_frames_are_the_same_in_chunks_of_any_size(chunk_bytes: int) -> None:
    assert feed_cut(GOLDEN_STREAM, list(range(chunk_bytes, len(GOLDEN_STREAM), chunk_bytes))) == GOLDEN_CONTENTS


@given(st.lists(st.binary(max_size=20)), st.data())
def test_what_was_framed_comes_out_again(contents: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(encode_frame, contents))
    cuts = data.draw(st.lists(st.integers(0, len(stream))))
    assert feed_cut(stream, cuts) == contents


def test_frames_of_one_read_come_out_together_and_the_rest_waits() -> None:
    decoder = FrameDecoder()
    assert decoder.feed(encode_frame(b"alpha") + encode_frame(b"") + b"\0\0\0\5om") == [b"alpha", b""]
    assert decoder.buffered_bytes == 6
    assert decoder.feed(b"ega") == [b"omega"]
    assert decoder.buffered_bytes == 0


@pytest.mark.parametrize("prefix", [FRAME_BYTES_MAX - 3, 2**31, 2**32 - 1])
def test_a_frame_over_the_limit_is_refused_before_it_is_buffered(prefix: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"frame of {prefix + 4} bytes, limit {FRAME_BYTES_MAX}"):
        FrameDecoder().feed(prefix.to_bytes(4, "big"))


def test_the_limit_counts_the_prefix_and_a_frame_at_the_limit_passes() -> None:
    assert FrameDecoder(frame_bytes_max=10).feed(encode_frame(b"123456")) == [b"123456"]
    with pytest.raises(RemoteProtocolError, match="frame of 11 bytes, limit 10"):
        FrameDecoder(frame_bytes_max=10).feed(encode_frame(b"1234567"))


@given(st.lists(st.integers(0, 27)))
def test_good_frames_before_one_over_the_limit_come_out_wherever_the_stream_is_cut(cuts: list[int]) -> None:
    stream = encode_frame(b"alpha") + encode_frame(b"omega") + b"\xff\xff\xff\xff more"
    decoder = FrameDecoder()
    frames: list[bytes] = []
    with pytest.raises(RemoteProtocolError, match="limit"):  # noqa: PT012 - which piece raises is up to the cuts
        edges = [0, *sorted(cuts), len(stream)]
        for start, end in pairwise(edges):
            frames += decoder.feed(stream[start:end])
        decoder.feed(b"and on")
    assert frames == [b"alpha", b"omega"]


def test_a_frame_over_the_limit_behind_good_ones_is_told_of_without_more_bytes() -> None:
    decoder = FrameDecoder()
    assert decoder.feed(encode_frame(b"alpha") + b"\xff\xff\xff\xff") == [b"alpha"]
    with pytest.raises(RemoteProtocolError, match="limit"):
        decoder.check()
    half_a_frame = FrameDecoder()
    half_a_frame.feed(encode_frame(b"omega")[:6])
    half_a_frame.check()
