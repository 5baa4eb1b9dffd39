"""Record batches: the requested columns of records whose layout is known. Only these are computed."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hanabi.spark.decode.bodies import read_bodies
from hanabi.spark.decode.checksums import bodies_match
from hanabi.spark.decode.fields import Positions
from hanabi.spark.decode.hosts import born_hosts, offset_message_ids, store_hosts
from hanabi.spark.decode.keys import split_keys
from hanabi.spark.decode.layout import Layout
from hanabi.spark.decode.properties import Properties
from hanabi.spark.decode.slices import slices_of
from hanabi.wire.message import property_names as names

RECORD: Final = "record"  # the column with whole records as stored
DAMAGE: Final = "damage"  # the column with the kind of damage of a body, null for an intact one
_REASONS: Final = pa.array([None, "the checksum of the body is wrong", "the body does not unpack"], pa.string())
_WRONG_CRC, _NOT_UNPACKED = 1, 2

_MS_MAX: Final = (2**63 - 1) // 1000

OnDamaged = Callable[[Positions], None]


class Rows:
    """Records that become the rows of one batch. Values that several columns need are computed lazily and once."""

    def __init__(
        self,
        layout: Layout,
        broker_name: str | None = None,
        bodies: pa.Array | None = None,
        damage: NDArray[np.int8] | None = None,
    ) -> None:
        self.layout, self.broker_name, self.bodies, self.damage = layout, broker_name, bodies, damage

    @cached_property
    def properties(self) -> Properties:
        return Properties(self.layout)

    @cached_property
    def tags(self) -> pa.Array:
        return self.properties.find(names.TAGS)

    @cached_property
    def offset_message_ids(self) -> pa.Array:
        return offset_message_ids(self.layout)

    @property
    def store_times_ms(self) -> Positions:
        return self.layout.store_times_ms

    def message_ids(self) -> pa.Array:
        """Return the producer's ids; the broker's ids for messages without one."""
        unique = self.properties.find(names.UNIQUE_KEY)
        return pc.coalesce(unique, self.offset_message_ids) if unique.null_count else unique

    def damage_texts(self) -> pa.Array:
        if self.damage is None:
            return pa.nulls(len(self.layout), pa.string())
        return _REASONS.take(pa.array(self.damage))

    def column(self, name: str, kind: pa.DataType) -> pa.Array:
        return _COLUMNS[name](self, kind)


def decode_batches(
    layout: Layout,
    schema: pa.Schema,
    *,
    broker_name: str | None = None,
    check_crc: bool = True,
    keep_damaged: bool = False,
    on_damaged: OnDamaged = lambda _: None,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of *layout* as rows of *schema*, whose names are those of `columns`.

    Usually yields one batch; more if bodies decompress to a large size. Bodies are checked only if *schema* has them or
    the whole record. Those with a wrong checksum and those that do not decompress are left out; with *keep_damaged*
    they stay as stored. *on_damaged* gets their row numbers, each once.
    """
    damage = np.zeros(len(layout), np.int8)
    if check_crc and (RECORD in schema.names or "body" in schema.names):
        matches = bodies_match(layout)
        if not matches.all():
            on_damaged(layout.rows[~matches])
            damage[~matches] = _WRONG_CRC
            if not keep_damaged:
                layout, damage = layout.only(matches), damage[matches]
    while len(layout):
        rows, taken = Rows(layout, broker_name, damage=damage), len(layout)
        if "body" in schema.names:
            bodies, taken, spoilt = read_bodies(layout)
            new = [row for row in spoilt if not damage[row]]
            if new:
                on_damaged(layout.rows[new])
                damage[new] = _NOT_UNPACKED
            first = slice(0, taken)
            rows = Rows(layout.only(first) if taken < len(layout) else layout, broker_name, bodies, damage[first])
            if spoilt and not keep_damaged:
                good = damage[first] == 0
                rows = Rows(rows.layout.only(good), broker_name, bodies.filter(pa.array(good)))
        if len(rows.layout):
            arrays = [rows.column(field.name, field.type) for field in schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        layout, damage = layout.only(slice(taken, None)), damage[taken:]


def _times(times_ms: Positions, kind: pa.DataType) -> pa.Array:
    """Convert milliseconds to timestamps; null for a time out of the range of microseconds."""
    is_far = (times_ms > _MS_MAX) | (times_ms < -_MS_MAX)
    mask = is_far if is_far.any() else None
    return pa.array(times_ms * 1000 if mask is None else np.where(is_far, 0, times_ms) * 1000, mask=mask).view(kind)


def _raw(rows: Rows, kind: pa.DataType) -> pa.Array:
    return slices_of(rows.layout.buffer, rows.layout.starts, rows.layout.sizes, kind)


def _broker_name(rows: Rows, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(rows.broker_name, kind), len(rows.layout))


_Column = Callable[[Rows, pa.DataType], pa.Array]
_COLUMNS: Final[dict[str, _Column]] = {
    "topic": lambda rows, _: rows.layout.topics,
    "brokerName": _broker_name,
    "queueId": lambda rows, _: pa.array(rows.layout.queue_ids),
    "queueOffset": lambda rows, _: pa.array(rows.layout.queue_offsets),
    "messageId": lambda rows, _: rows.message_ids(),
    "offsetMessageId": lambda rows, _: rows.offset_message_ids,
    "tags": lambda rows, _: rows.tags,
    "keys": lambda rows, kind: split_keys(rows.properties.find(names.KEYS), kind),
    "body": lambda rows, _: rows.bodies,
    "properties": lambda rows, kind: rows.properties.as_maps(kind),
    "bornTimestamp": lambda rows, kind: _times(rows.layout.born_times_ms, kind),
    "storeTimestamp": lambda rows, kind: _times(rows.store_times_ms, kind),
    "bornHost": lambda rows, _: born_hosts(rows.layout),
    "storeHost": lambda rows, _: store_hosts(rows.layout),
    "reconsumeTimes": lambda rows, _: pa.array(rows.layout.reconsume_times),
    "sysFlag": lambda rows, _: pa.array(rows.layout.sys_flags),
    "commitLogOffset": lambda rows, _: pa.array(rows.layout.log_offsets),
    RECORD: _raw,
    DAMAGE: lambda rows, _: rows.damage_texts(),
}
