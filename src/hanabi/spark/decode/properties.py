"""Properties of many records at once: `properties.decode_properties` and `find_property` for an array.

All properties are first copied into one text, with a separator before each record's. Then two searches over the
text find every name and every value:

    0x02 name 0x01 value 0x02 name 0x01 value   0x02 name 0x01 value   0x02   0x02 name 0x01 value 0x02
    record 0                                    record 1               2      3, as 5.x ends them
"""

from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hanabi.spark.decode.fields import Mask, Positions, field_at
from hanabi.spark.decode.layout import Layout
from hanabi.spark.decode.slices import content_of, repaired_text, slices_of

_PADDING: Final = 8  # so that eight bytes can be read from the start of every name
_NAME_AND_VALUE: Final = 1
_BETWEEN_PROPERTIES: Final = 2
_NEIGHBOURS_MAX: Final = 64


class Properties:
    """Properties of the records of one layout."""

    def __init__(self, layout: Layout) -> None:
        self._records = len(layout)
        # The byte before the properties is their length's; in the copy it becomes the separator.
        raw = slices_of(layout.buffer, layout.properties_at - 1, layout.properties_bytes + 1, pa.string())
        content, offsets = content_of(raw)
        text = np.zeros(offsets[-1] - offsets[0] + _PADDING, np.uint8)
        text[:-_PADDING] = content[offsets[0] : offsets[-1]]
        record_at = offsets - offsets[0]
        text[record_at[:-1]] = _BETWEEN_PROPERTIES
        if text.max() >= 0x80:
            marked = pa.Array.from_buffers(
                pa.string(), self._records, [None, pa.py_buffer(record_at), pa.py_buffer(text[:-_PADDING])]
            )
            repaired = repaired_text(marked)
            if repaired is not marked:
                content, record_at = content_of(repaired)
                text = np.concatenate([content, np.zeros(_PADDING, np.uint8)])
        self._text = text
        self._find_pairs(record_at.astype(np.int64))

    def _find_pairs(self, record_at: Positions) -> None:
        text = self._text[:-_PADDING]
        starts = np.flatnonzero(text == _BETWEEN_PROPERTIES) + 1
        ends = np.append(starts[1:] - 1, len(text))
        middles = np.flatnonzero(text == _NAME_AND_VALUE)
        nonempty = ends > starts
        names_at, values_end = starts[nonempty], ends[nonempty]
        if not _is_one_in_each(middles, names_at, values_end):
            middles = np.append(middles, len(text))
            middles = middles[np.searchsorted(middles, names_at)]
        good = (middles > names_at) & (middles + 1 < values_end)
        if not good.all():  # a missing name, value or separator
            names_at, middles, values_end = names_at[good], middles[good], values_end[good]
        self._names_at, self._middles, self._values_end = names_at, middles, values_end
        self._record_pairs = np.searchsorted(names_at, record_at)  # the number of pairs before each record

    @cached_property
    def _records_of_pairs(self) -> Positions:
        return np.repeat(np.arange(self._records), np.diff(self._record_pairs))

    @cached_property
    def _name_starts(self) -> NDArray[np.uint64]:
        """The first eight bytes of each name, padded with zeros."""
        found = field_at(self._text, self._names_at, "<u8")
        missing = np.clip(8 - (self._middles - self._names_at), 0, 8).astype(np.uint64) * np.uint64(8)
        everything = np.uint64(2**64 - 1)
        # A shift by 64 is not defined, but no name is empty.
        starts: NDArray[np.uint64] = found & (everything >> missing)
        return starts

    def find(self, name: str) -> pa.Array:
        """Return the value of one property in each record, null if absent.

        The last of several counts, as in a dictionary.
        """
        raw = name.encode()
        same = (self._middles - self._names_at == len(raw)) & (
            self._name_starts == np.uint64(int.from_bytes(raw[:8].ljust(8, b"\0"), "little"))
        )
        pairs = np.flatnonzero(same)
        if len(raw) > 8:
            pairs = pairs[self._are_named(pairs, raw)]
        records = self._records_of_pairs[pairs]
        if len(records) == self._records and (np.diff(records) == 1).all():  # every record has it once
            return self._values(pairs)
        chosen = np.full(self._records, -1, np.int64)
        chosen[records] = pairs  # of two for one record, the last is kept
        has_it = chosen >= 0
        found = self._values(chosen[has_it])
        places = np.cumsum(has_it) - 1
        return found.take(pa.array(places, mask=~has_it))

    def _are_named(self, pairs: Positions, raw: bytes) -> Mask:
        names = slices_of(self._buffer, self._names_at[pairs], np.full(len(pairs), len(raw)), pa.binary())
        return np.array([each == raw for each in names.to_pylist()], np.bool_)

    @cached_property
    def _buffer(self) -> pa.Buffer:
        return pa.py_buffer(self._text)

    def _values(self, pairs: Positions) -> pa.Array:
        starts = self._middles[pairs] + 1
        return slices_of(self._buffer, starts, self._values_end[pairs] - starts, pa.string())

    def as_maps(self, kind: pa.MapType) -> pa.Array:
        """Return all properties of each record, of Arrow type *kind*."""
        names_at, middles, values_at, values_end, record_pairs = self._unique_pairs()
        names = slices_of(self._buffer, names_at, middles - names_at, pa.string())
        values = slices_of(self._buffer, values_at, values_end - values_at, pa.string())
        offsets = pa.array(record_pairs.astype(np.int32))
        return pa.MapArray.from_arrays(offsets, names, values, type=kind)

    def _unique_pairs(self) -> tuple[Positions, Positions, Positions, Positions, Positions]:
        """Return name start and end, value start and end of every pair, and the pairs before each record.

        Names are unique.
        """
        values_at, values_end = self._middles + 1, self._values_end
        suspects = self._records_with_doubtful_names()
        if not suspects:
            return self._names_at, self._middles, values_at, values_end, self._record_pairs
        values_end = values_end.copy()
        keep = np.ones(len(values_at), np.bool_)
        view = memoryview(self._buffer)
        for record in suspects:
            first_of: dict[bytes, int] = {}
            for pair in range(int(self._record_pairs[record]), int(self._record_pairs[record + 1])):
                name = bytes(view[int(self._names_at[pair]) : int(self._middles[pair])])
                first = first_of.setdefault(name, pair)
                if first != pair:  # keep the position of the first and the value of the last
                    values_at[first], values_end[first] = values_at[pair], values_end[pair]
                    keep[pair] = False
        counts = np.concatenate([[0], np.cumsum(keep)])
        kept = self._names_at[keep], self._middles[keep], values_at[keep], values_end[keep]
        return *kept, counts[self._record_pairs]

    def _records_with_doubtful_names(self) -> list[int]:
        """Return the records in which two names may be equal: same length and same first bytes."""
        lengths = self._middles - self._names_at
        records = self._records_of_pairs
        most = int(np.diff(self._record_pairs).max(initial=0))
        doubtful: set[int] = set()
        if most > _NEIGHBOURS_MAX:  # comparing all pairs would take too long
            doubtful.update(np.flatnonzero(np.diff(self._record_pairs) > _NEIGHBOURS_MAX).tolist())
            most = _NEIGHBOURS_MAX
        for distance in range(1, most):
            alike = (
                (self._name_starts[distance:] == self._name_starts[:-distance])
                & (lengths[distance:] == lengths[:-distance])
                & (records[distance:] == records[:-distance])
            )
            if alike.any():
                doubtful.update(records[:-distance][alike].tolist())
        return sorted(doubtful)


def _is_one_in_each(middles: Positions, starts: Positions, ends: Positions) -> bool:
    """Return whether each stretch has exactly one of *middles*. True nearly always: then no search is needed."""
    return len(middles) == len(starts) and bool(((middles >= starts) & (middles < ends)).all())
