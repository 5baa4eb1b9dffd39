"""Field positions of many records at once, and detection of invalid records: `record._boundaries` for an array.

All lengths are checked before any field is cut out. An IPv6 host shifts the fields after it by 12 bytes; the second
magic has a topic length of two bytes.
"""

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hanabi.spark.decode.fields import (
    Bytes,
    Mask,
    Positions,
    Stretches,
    field_at,
    field_near,
    field_of,
    stretches_near,
)
from hanabi.spark.decode.slices import repaired_text, slices_of
from hanabi.wire.message.record import MAGIC, MAGIC_LONG_TOPIC, TOPIC_BYTES_MAX

RECORD_BYTES_MIN: Final = 88 + 1 + 2  # the head, and the lengths of an empty topic and empty properties
_HEAD_BYTES: Final = 88  # up to the body, if both hosts are IPv4
_BODY_LENGTH_AT: Final = 84
_SYS_FLAG_LOW_BYTE: Final = 39
_LONGER_V6: Final = 12


@dataclass(frozen=True)
class Layout:
    """Valid records. All arrays have one element per record; positions count from the start of `buffer`.

    `rows` holds the indices of the records among those passed to `lay_out`. `heads` holds the first bytes of each
    record: a dozen numbers are read from them, and reading each from the distant records would cost a cache miss.
    """

    buffer: pa.Buffer
    rows: Positions
    starts: Positions
    sizes: Positions
    heads: Stretches
    family: NDArray[np.uint8]  # 1: the born host is IPv6, 2: the store host
    body_at: Positions
    body_bytes: Positions
    topic_at: Positions
    topic_bytes: Positions
    properties_at: Positions

    def __len__(self) -> int:
        return len(self.starts)

    def only(self, chosen: "Mask | slice") -> "Layout":
        """Return the layout of the *chosen* records."""
        if isinstance(chosen, np.ndarray) and chosen.all():
            return self
        arrays = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return Layout(**{name: value if name == "buffer" else value[chosen] for name, value in arrays.items()})

    @cached_property
    def data(self) -> Bytes:
        return np.frombuffer(self.buffer, np.uint8)

    def field(self, at: int, kind: str) -> NDArray[Any]:
        """Return the number *at* bytes into each record (drawn in `wire.message.record`).

        The field must precede the hosts, or all hosts must be IPv4.
        """
        return field_of(self.heads, at, kind)

    @cached_property
    def is_v4(self) -> bool:
        """True if all hosts are IPv4."""
        return not self.family.any()

    @cached_property
    def crcs(self) -> NDArray[Any]:
        return self.field(8, ">i4")

    @cached_property
    def queue_ids(self) -> NDArray[Any]:
        return self.field(12, ">i4")

    @cached_property
    def queue_offsets(self) -> Positions:
        return self.field(20, ">i8")

    @cached_property
    def log_offsets(self) -> Positions:
        return self.field(28, ">i8")

    @cached_property
    def sys_flags(self) -> NDArray[Any]:
        return self.field(36, ">i4")

    @cached_property
    def born_times_ms(self) -> Positions:
        return self.field(40, ">i8")

    @cached_property
    def store_times_ms(self) -> Positions:
        return self.field(56, ">i8") if self.is_v4 else field_at(self.data, self.store_timestamp_at, ">i8")

    @cached_property
    def reconsume_times(self) -> NDArray[Any]:
        return self.field(72, ">i4") if self.is_v4 else field_at(self.data, self.body_at - 16, ">i4")

    @cached_property
    def store_timestamp_at(self) -> Positions:
        return self.starts + 56 + (self.family & 1).astype(np.int64) * _LONGER_V6

    @cached_property
    def properties_bytes(self) -> Positions:
        return self.starts + self.sizes - self.properties_at

    @cached_property
    def topics(self) -> pa.Array:
        return repaired_text(slices_of(self.buffer, self.topic_at, self.topic_bytes, pa.string()))


def lay_out(buffer: pa.Buffer, starts: Positions, sizes: Positions) -> tuple[Layout, Positions]:
    """Return the layout of the records that begin at *starts* and have *sizes*, and the rows of invalid records.

    Records in ascending order are the fast path.
    """
    data = np.frombuffer(buffer, np.uint8)
    rows = np.arange(len(starts), dtype=np.int64)
    if len(data) < RECORD_BYTES_MIN:
        empty = np.empty(0, np.int64)
        heads = np.empty(0, f"V{_HEAD_BYTES}")
        return Layout(buffer, empty, empty, empty, heads, empty.astype(np.uint8), *[empty] * 5), rows
    ends = starts + sizes
    heads = stretches_near(data, starts, _HEAD_BYTES)
    good = (starts >= 0) & (sizes >= RECORD_BYTES_MIN) & (ends <= len(data)) & (field_of(heads, 0, ">i4") == sizes)
    magics = field_of(heads, 4, ">u4")
    is_long_topic = magics == MAGIC_LONG_TOPIC
    good &= is_long_topic | (magics == MAGIC)

    family: NDArray[np.uint8] = field_of(heads, _SYS_FLAG_LOW_BYTE, "u1") >> np.uint8(4) & np.uint8(3)
    body_at = starts + _BODY_LENGTH_AT + 4 + ((family & 1) + (family >> 1)).astype(np.int64) * _LONGER_V6
    topic_length_bytes = 1 + is_long_topic.astype(np.int64)
    good &= body_at + topic_length_bytes + 2 <= ends
    lengths = field_near(data, body_at - 4, ">i4") if family.any() else field_of(heads, _BODY_LENGTH_AT, ">i4")
    body_bytes = lengths.astype(np.int64)
    body_end = body_at + body_bytes
    topic_at = body_end + topic_length_bytes
    good &= (body_bytes >= 0) & (topic_at + 2 <= ends)

    topic_bytes = field_near(data, body_end, "u1").astype(np.int64)
    good &= is_long_topic | (topic_bytes <= TOPIC_BYTES_MAX)
    if is_long_topic.any():
        topic_bytes = np.where(is_long_topic, field_near(data, body_end, ">i2"), topic_bytes)
    topic_end = topic_at + topic_bytes
    good &= (topic_bytes >= 0) & (topic_end + 2 <= ends)
    good &= topic_end + 2 + field_near(data, topic_end, ">i2") == ends

    properties_at = topic_end + 2
    layout = Layout(
        buffer, rows, starts, sizes, heads, family, body_at, body_bytes, topic_at, topic_bytes, properties_at
    )
    return layout.only(good), rows[~good]
