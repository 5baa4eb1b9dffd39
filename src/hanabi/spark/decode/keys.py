"""Splitting of the KEYS property of many messages at white space, exactly as `str.split` does."""

from typing import Final

import numpy as np
import pyarrow as pa

from hanabi.spark.decode.fields import Mask, Positions
from hanabi.spark.decode.slices import content_of, slices_of

_IS_SPACE: Final = np.isin(np.arange(256), [*range(9, 14), *range(28, 33)])
# First bytes of the other characters that `str.split` splits at. Values with any of these bytes take the slow path.
_MAY_BE_SPACE: Final = np.isin(np.arange(256), [0xC2, 0xE1, 0xE2, 0xE3])
_SPACE_MAX: Final = 32
_MAY_BE_SPACE_MIN: Final = 0xC2


def split_keys(values: pa.Array, kind: pa.ListType) -> pa.Array:
    """Return a list of keys for each of *values*, strings or null; an empty list for null."""
    content, offsets = content_of(values)
    content = content[offsets[0] : offsets[-1]]
    ends = offsets.astype(np.int64) - offsets[0]
    is_plain = (
        bool(len(content)) and content.min() > _SPACE_MAX and content.max() < _MAY_BE_SPACE_MIN
    )  # the common case
    if not is_plain and _MAY_BE_SPACE[content].any():
        split = [(value or "").split() for value in values.to_pylist()]
        return pa.array(split, kind)
    if is_plain or not (is_space := _IS_SPACE[content]).any():  # one key, or none
        has_one = np.diff(ends) > 0
        if has_one.all():
            return pa.ListArray.from_arrays(_int32(np.arange(len(values) + 1)), values, type=kind)
        counts = np.concatenate([[0], np.cumsum(has_one)])
        return pa.ListArray.from_arrays(_int32(counts), values.filter(pa.array(has_one)), type=kind)
    is_border = is_space[:-1] | is_space[1:] | _begins_value(ends, len(content))[1:]
    begins, stops = ~is_space, ~is_space
    begins[1:] &= is_border
    stops[:-1] &= is_border
    starts = np.flatnonzero(begins)
    keys = slices_of(pa.py_buffer(content), starts, np.flatnonzero(stops) + 1 - starts, pa.string())
    return pa.ListArray.from_arrays(_int32(np.searchsorted(starts, ends)), keys, type=kind)


def _begins_value(ends: Positions, length: int) -> Mask:
    """Return whether a value begins at each byte."""
    begins = np.zeros(length + 1, np.bool_)
    begins[ends] = True
    return begins[:-1]


def _int32(numbers: Positions) -> pa.Array:
    return pa.array(numbers.astype(np.int32))
