"""Data for measuring Spark: a store full of messages, and a source that reads it as one would without our decoder."""

import os
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from hanabi.spark.shared.columns import MESSAGE, struct_of
from hanabi.spark.store.options import parse_store_options
from hanabi.spark.store.plan import QueueTask, plan_queue_tasks
from hanabi.store.config import StoreConfig
from hanabi.store.inspection.home import FileReader, StoreHome
from hanabi.store.inspection.log_lookup import LogLookup
from hanabi.store.inspection.queues import QueueOnDisk
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import MessageStore
from hanabi.wire.message.hosts import encode_host
from hanabi.wire.message.message_id import UniqueIds
from hanabi.wire.message.properties import encode_properties
from hanabi.wire.message.record import decode_record
from hanabi.wire.message.stored import to_message

TOPIC = "TopicTest"
QUEUES = 4
BODY_BYTES = 1024
HOST = encode_host("127.0.0.1", 10911)


def fill(root: Path, count: int) -> None:
    """Write a store with messages as a Java client sends them."""
    ids = UniqueIds(lambda: int(time.time() * 1000), ip=bytes(4), process_id=os.getpid(), loader_hash=1)
    randoms = random.Random(1)
    noise = randoms.randbytes(1 << 20)
    with MessageStore.open(StoreConfig(root=str(root)), disk_ratio=lambda _: 0.1) as store:
        for number in range(count):
            at = randoms.randrange(len(noise) - BODY_BYTES)
            properties = {
                "KEYS": f"order-{number}",
                "UNIQ_KEY": ids.make(),
                "WAIT": "true",
                "TAGS": f"Tag{number % 16}",
            }
            raw = encode_properties(properties)
            now_ms = int(time.time() * 1000)
            body = noise[at : at + BODY_BYTES]
            store.put(PendingMessage(TOPIC, number % QUEUES, body, raw, now_ms, HOST, HOST))
        store.flush()


class RowSource(DataSource):
    """Reader as one would write it without the vectorised decoder: a tuple for each message."""

    @classmethod
    def name(cls) -> str:
        return "rows-of-a-store"

    def schema(self) -> StructType:
        return struct_of(MESSAGE)

    def reader(self, schema: StructType) -> DataSourceReader:
        return RowReader(self.options["path"])


class RowReader(DataSourceReader):
    """Cut as ours, read message by message."""

    def __init__(self, path: str) -> None:
        self._path = path

    def partitions(self) -> list[InputPartition]:
        options = parse_store_options({"path": self._path})
        return [*plan_queue_tasks(options, options.selection)]

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        assert isinstance(partition, QueueTask)
        home = StoreHome.open(Path(self._path))
        with FileReader() as reader, FileReader() as queue_reader:
            log = LogLookup(home, reader)
            for topic, queue_id, first, end, _ in partition.spans:
                queue = QueueOnDisk(f"{home.queues}/{topic}/{queue_id}", topic, queue_id)
                for queue_offset in range(first, end):
                    entry = queue.entry(queue_reader, queue_offset)
                    assert entry is not None
                    message = to_message(decode_record(log.read(entry[0]) or b"", 0, entry[1]))
                    yield (
                        message.topic,
                        None,
                        message.queue_id,
                        message.queue_offset,
                        message.message_id,
                        message.offset_message_id,
                        message.tags,
                        list(message.keys),
                        message.body,
                        message.properties,
                        datetime.fromtimestamp(message.born_timestamp_ms / 1000, UTC),
                        datetime.fromtimestamp(message.store_timestamp_ms / 1000, UTC),
                        str(message.born_host),
                        str(message.store_host),
                        message.reconsume_times,
                        message.sys_flag,
                        message.log_offset,
                    )
