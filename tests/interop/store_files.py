"""The files of a store: what a broker needs beside the messages, what a crash leaves, whether two are equal."""

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from hanabi.store.config import StoreConfig
from hanabi.store.indexer import Hooks
from hanabi.store.message_store import MessageStore, PutStatus
from hanabi.store.queues.consume_queue import ENTRY
from hanabi.wire.message.record import Record, RecordState, decode_record, encode_record, scan_records
from tests.golden_records import as_pending
from tests.interop.store_messages import FILE_SIZES, QUEUES, deliver_time_ms


def store_config(root: Path, **settings: str) -> StoreConfig:
    """Our configuration of the store in *root*, read from the same words as the brokers'."""
    words = {name: str(value) for name, value in FILE_SIZES.items()}
    return StoreConfig.from_properties({**words, "storePathRootDir": str(root), **settings})


def open_store(root: Path) -> MessageStore:
    """Our store on the files in *root*."""
    return MessageStore.open(store_config(root), hooks=Hooks(deliver_time_ms=deliver_time_ms), disk_ratio=lambda _: 0.1)


def write_topics(root: Path, topics: Iterable[str]) -> None:
    """Tell a broker of Apache's which topics there are; it serves no others."""
    table = {
        topic: {
            "order": False,
            "perm": 6,
            "readQueueNums": QUEUES,
            "topicFilterType": "SINGLE_TAG",
            "topicName": topic,
            "topicSysFlag": 0,
            "writeQueueNums": QUEUES,
        }
        for topic in topics
    }
    (root / "config").mkdir(parents=True, exist_ok=True)
    content = {"dataVersion": {"counter": 1, "timestamp": 1_700_000_000_000}, "topicConfigTable": table}
    (root / "config" / "topics.json").write_text(json.dumps(content))


def copy_store(root: Path, home: Path) -> Path:
    """Return a copy of a store, for one who lives in *home*."""
    return Path(shutil.copytree(root, home / "store"))


def date_queue_files(root: Path) -> None:
    """Let each consume queue file have been changed last when its last message was stored.

    Apache 4.9 finds messages by time with the help of these dates, which here would tell when a page went to the disk.
    """
    for path in (root / "consumequeue").glob("*/*/*"):
        stored = [entry for entry in ENTRY.iter_unpack(path.read_bytes()) if entry[1]]
        if stored:
            at_ms = _record_at(root, stored[-1][0]).store_timestamp_ms
            os.utime(path, ns=(at_ms * 1_000_000, at_ms * 1_000_000))


def _record_at(root: Path, log_offset: int) -> Record:
    base = log_offset - log_offset % FILE_SIZES["mappedFileSizeCommitLog"]
    return decode_record((root / "commitlog" / f"{base:020d}").read_bytes(), log_offset - base)


def log_records(root: Path) -> list[Record]:
    """Return every record of the log, in order."""
    records: list[Record] = []
    for path in sorted((root / "commitlog").iterdir()):
        data = path.read_bytes()
        for position, checked in scan_records(data):
            if checked.state is RecordState.WHOLE:
                records.append(decode_record(data, position))
    return records


def tear(root: Path, log_end: int, last: Record, whole_bytes: int) -> None:
    """Leave the first *whole_bytes* bytes of one more message behind the end of the log: a write that was torn."""
    base = log_end - log_end % FILE_SIZES["mappedFileSizeCommitLog"]
    torn = encode_record(
        topic=last.topic.encode(),
        body=b"torn" * 100,
        properties=b"TAGS\x01torn\x02",
        queue_id=last.queue_id,
        queue_offset=last.queue_offset + 1,
        log_offset=log_end,
        born_timestamp_ms=last.born_timestamp_ms,
        born_host=last.born_host,
        store_timestamp_ms=last.store_timestamp_ms,
        store_host=last.store_host,
    )
    with (root / "commitlog" / f"{base:020d}").open("r+b") as file:
        file.seek(log_end - base)
        file.write(torn[: min(whole_bytes, base + FILE_SIZES["mappedFileSizeCommitLog"] - log_end)])


def write_again(records: Sequence[Record], batches: Iterable[Sequence[int]], root: Path) -> None:
    """Put the messages of a store into a new one. *batches* are the log offsets of those that came together."""
    first_of = {batch[0]: set(batch) for batch in batches}
    clock_ms = 0
    with MessageStore.open(
        store_config(root),
        now_ms=lambda: clock_ms,
        hooks=Hooks(deliver_time_ms=deliver_time_ms),
        disk_ratio=lambda _: 0.1,
    ) as store:
        position = 0
        while position < len(records):
            together = first_of.get(records[position].log_offset, {records[position].log_offset})
            batch = records[position : position + len(together)]
            assert {record.log_offset for record in batch} == together
            clock_ms = batch[0].store_timestamp_ms
            messages = [as_pending(record) for record in batch]
            result = store.put(messages[0]) if len(messages) == 1 else store.put_batch(messages)
            assert result.status is PutStatus.PUT_OK, result.reason
            position += len(batch)


def file_contents(root: Path, part: str) -> dict[str, bytes]:
    """Return what is in the files below *part*, but for those that were only prepared; index files under their
    number."""
    files = [path for path in sorted((root / part).rglob("*")) if path.is_file()]
    names = [str(number) if part == "index" else str(path.relative_to(root)) for number, path in enumerate(files)]
    contents = {name: path.read_bytes() for name, path in zip(names, files, strict=True)}
    return {name: content for name, content in contents.items() if any(content)}
