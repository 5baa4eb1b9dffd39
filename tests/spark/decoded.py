"""Records from the vectorised decoder, in a form that can be compared with what `to_message` says."""

from typing import Any

import numpy as np
import pyarrow as pa

from hanabi.errors import RemoteProtocolError
from hanabi.message import StoredMessage
from hanabi.spark.decode.batches import RECORD, decode_batches
from hanabi.spark.decode.layout import lay_out
from hanabi.spark.shared.columns import MESSAGE, RAW, arrow_schema, struct_of
from hanabi.wire.message.record import decode_record
from hanabi.wire.message.stored import to_message

ALL_COLUMNS = arrow_schema(struct_of(MESSAGE | RAW), MESSAGE | RAW)
BROKER = "broker-a"
MICROSECONDS_MAX = 2**63 - 1

Row = dict[str, Any]


def decoded(
    data: bytes, starts: list[int], sizes: list[int], *, schema: pa.Schema = ALL_COLUMNS, check_crc: bool = True
) -> tuple[list[Row], list[int]]:
    """Return the rows that the decoder makes of the records, and which of these it calls damaged."""
    layout, torn = lay_out(pa.py_buffer(data), np.array(starts, np.int64), np.array(sizes, np.int64))
    damaged = torn.tolist()
    batches = list(
        decode_batches(
            layout,
            schema,
            broker_name=BROKER,
            check_crc=check_crc,
            on_damaged=lambda rows: damaged.extend(rows.tolist()),
        )
    )
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema.equals(schema)
    return [row for batch in batches for row in rows_of(batch)], sorted(damaged)


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    """Rows with times in microseconds and maps as dictionaries, in the order of the properties."""
    plain = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in batch.columns]
    rows: list[Row] = pa.RecordBatch.from_arrays(plain, names=batch.schema.names).to_pylist()
    for row in rows:
        if "properties" in row:
            assert len(dict(row["properties"])) == len(row["properties"]), "no name twice"
            row["properties"] = dict(row["properties"])
    return rows


def expected(
    data: bytes, starts: list[int], sizes: list[int], *, check_crc: bool = True
) -> tuple[list[Row], list[int]]:
    """Return the same from the readable decoder, one record at a time."""
    rows, damaged = [], []
    for number, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        raw = data[start : start + size]
        try:
            record = decode_record(raw, check_crc=check_crc)
            if record.size != size:
                raise RemoteProtocolError("another size than was said")
            rows.append(row_of(to_message(record, broker_name=BROKER)) | {RECORD: raw})
        except RemoteProtocolError:
            damaged.append(number)
    return rows, damaged


def row_of(message: StoredMessage) -> Row:
    return {
        "topic": message.topic,
        "brokerName": message.broker_name,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "messageId": message.message_id,
        "offsetMessageId": message.offset_message_id,
        "tags": message.tags,
        "keys": list(message.keys),
        "body": message.body,
        "properties": message.properties,
        "bornTimestamp": microseconds(message.born_timestamp_ms),
        "storeTimestamp": microseconds(message.store_timestamp_ms),
        "bornHost": str(message.born_host),
        "storeHost": str(message.store_host),
        "reconsumeTimes": message.reconsume_times,
        "sysFlag": message.sys_flag,
        "commitLogOffset": message.log_offset,
    }


def microseconds(time_ms: int) -> int | None:
    return time_ms * 1000 if abs(time_ms * 1000) <= MICROSECONDS_MAX else None
