"""Slices of one buffer as an Arrow array: one copy in C++, or none if the slices are contiguous."""

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hanabi.spark.decode.fields import Bytes, Positions

OFFSET_MAX: Final = 2**31 - 1  # Arrow's strings and binaries have 32-bit offsets
# An element of Arrow's views: a length, the first bytes, the buffer's number and the offset in it. A short value is
# stored in the element itself.
_VIEW: Final = np.dtype([("length", "<i4"), ("begins", "<u4"), ("buffer", "<i4"), ("at", "<i4")])
_SHORT_MAX: Final = 12
_VIEWS: Final = {pa.binary(): pa.binary_view(), pa.string(): pa.string_view()}


def slices_of(buffer: pa.Buffer, starts: Positions, lengths: Positions, kind: pa.DataType) -> pa.Array:
    """Return the bytes [start, start + length) of *buffer* for each pair, as an array of *kind* (binary or string).

    The slices must lie inside *buffer*. They should ascend and not overlap, as slices of records do; any other order
    costs a Python loop.
    """
    count = len(starts)
    if buffer.size > OFFSET_MAX:
        raise ValueError(f"a buffer of {buffer.size} bytes, Arrow can address {OFFSET_MAX}")
    if not count:
        return pa.array([], kind)
    # Value, gap, value, gap ...: take every second element.
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[0:-1:2] = starts
    offsets[1::2] = starts + lengths
    offsets[-1] = offsets[-2]
    gaps = offsets[2::2] - offsets[1::2]
    if (gaps[:-1] < 0).any() or (lengths < 0).any():
        return _one_by_one(buffer, starts, lengths, kind)
    if not gaps.any():
        return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(offsets[0::2].copy()), buffer])
    if lengths.min() > _SHORT_MAX:
        return _by_views(buffer, starts, lengths, kind)
    spread = pa.Array.from_buffers(kind, 2 * count, [None, pa.py_buffer(offsets), buffer])
    return spread.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))


def _by_views(buffer: pa.Buffer, starts: Positions, lengths: Positions, kind: pa.DataType) -> pa.Array:
    """Return slices that are not short, by Arrow's views.

    Costs half of `take`, which estimates the output size from the gaps too and then reallocates. The prefix bytes stay
    zero: only comparisons of views read them.
    """
    views = np.zeros(len(starts), _VIEW)
    views["length"], views["at"] = lengths, starts
    return pa.Array.from_buffers(_VIEWS[kind], len(starts), [None, pa.py_buffer(views), buffer]).cast(kind)


def _one_by_one(buffer: pa.Buffer, starts: Positions, lengths: Positions, kind: pa.DataType) -> pa.Array:
    view = memoryview(buffer)
    ends = (starts + lengths).tolist()
    raw = [bytes(view[start:end]) for start, end in zip(starts.tolist(), ends, strict=True)]
    return pa.array(raw, pa.binary()).view(kind)  # UTF-8 is not validated here, as above


def content_of(array: pa.Array) -> tuple[Bytes, NDArray[np.int32]]:
    """Return the bytes of an unsliced string or binary array, and the offsets into them (one more than elements)."""
    _, offsets, data = array.buffers()
    if not len(array):
        return np.empty(0, np.uint8), np.zeros(1, np.int32)
    content = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return content, np.frombuffer(offsets, np.int32, len(array) + 1)


def repaired_text(array: pa.Array) -> pa.Array:
    """Return *array* of strings with invalid UTF-8 replaced as Python and Java replace it.

    Usually nothing is replaced.
    """
    content, _ = content_of(array)
    if not len(content) or content.max() < 0x80:
        return array
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raw = array.view(pa.binary()).to_pylist()
        return pa.array([each.decode("utf-8", "replace") for each in raw], pa.string())
    return array
