"""The stores that Apache RocketMQ 4.9.8 wrote, and the bodies with records that its broker sent, for tests to read."""

import tarfile
from functools import cache

from hanabi.store.log.commit_log import PendingMessage
from hanabi.wire.command import Command, decode_command
from hanabi.wire.message.record import Record
from tests.golden_frames import ALL_FRAMES, GOLDEN, GoldenFrame

STORES = ("store-clean.tar.gz", "store-crashed-slave.tar.gz")

# Who sends records: pull, query and view replies, and the broker asking about a transaction.
_RECORD_CODES = {11, 12, 33, 39}


@cache
def golden_store(name: str) -> dict[str, bytes]:
    """Return every file of a recorded store, by its path inside."""
    with tarfile.open(GOLDEN / name) as archive:
        files = ((member, archive.extractfile(member)) for member in archive)
        return {member.name.removeprefix("./"): file.read() for member, file in files if file}


def golden_logs(name: str) -> list[bytes]:
    """Return the segments of a recorded commit log."""
    return [content for path, content in sorted(golden_store(name).items()) if path.startswith("commitlog/")]


def frames_with_records() -> list[tuple[GoldenFrame, Command]]:
    """Return every recorded frame whose body is records."""
    frames = ((frame, decode_command(frame.frame[4:])) for frame in ALL_FRAMES if frame.request_code in _RECORD_CODES)
    return [(frame, command) for frame, command in frames if command.body and frame.sent_by == "server"]


def as_pending(record: Record, *, is_stored: bool = False) -> PendingMessage:
    """*record* as the message it was before it had a place: to be appended again. *is_stored*: it was made from another
    one that the log has."""
    return PendingMessage(
        record.topic,
        record.queue_id,
        record.body,
        record.properties,
        record.born_timestamp_ms,
        record.born_host,
        record.store_host,
        flag=record.flag,
        sys_flag=record.sys_flag,
        reconsume_times=record.reconsume_times,
        prepared_offset=record.prepared_offset,
        is_stored=is_stored,
    )
