"""Ends of the master's queues, for a slave whose copy of the log does not begin at 0: `config/replica.json`.

A new slave gets the last file of its master's log only. A queue whose messages are all in older files has none in the
copy: as a master it would begin at 0, and use offsets again that its master has given out. So a slave asks its master
once where such queues end. From then on every message of theirs is in the copy.

    slave, empty log        {"isKnown": false}                       it must not be promoted yet
    asked its master        {"isKnown": true, "ends": {...}}
    becomes a master        the queues without a message begin at their ends; the file is deleted

A home without this file was a master's, or an older version's.
"""

import logging
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Final

import msgspec

from hanabi.durable_table import replace_file, sync_directory
from hanabi.errors import ConfigError, StoreError
from hanabi.store.message_store import MessageStore

logger = logging.getLogger(__name__)

FILE_NAME: Final = "replica.json"

QueueEnds = Mapping[str, Mapping[int, int]]  # topic -> queue id -> the offset of the next message


class _Record(msgspec.Struct, frozen=True, rename="camel"):
    is_known: bool = False
    ends: dict[str, dict[int, int]] = {}


class CopiedQueueEnds:
    """The file of one slave."""

    def __init__(self, config: Path) -> None:
        self._path = config / FILE_NAME
        self._record = _Record()

    def begin(self, store: MessageStore) -> None:
        """Note, before anything is copied, that the ends are unknown. They stay known for a copy that goes on.

        Blocks for the disk.
        """
        found = _read(self._path)
        is_empty = not store.max_log_offset
        if is_empty:
            _write(self._path, _Record())
        self._record = found if found is not None and not is_empty else _Record()

    @property
    def is_known(self) -> bool:
        """Return whether the master was asked for the ends."""
        return self._record.is_known

    def of_topics(self, topics: Container[str]) -> dict[tuple[str, int], int]:
        """Return the known ends of the queues of *topics*."""
        found = self._record.ends.items()
        return {(topic, queue_id): end for topic, ends in found if topic in topics for queue_id, end in ends.items()}

    def forget(self) -> None:
        """Delete the file: the queues of this broker go on from here. Blocks for the disk."""
        self._record = _Record()
        if self._path.exists():
            _delete(self._path)

    def take(self, ends: QueueEnds) -> None:
        """Keep the ends for a promotion. Blocks for the disk."""
        record = _Record(is_known=True, ends={topic: dict(queues) for topic, queues in ends.items()})
        _write(self._path, record)
        self._record = record
        logger.info(
            "this slave can be promoted: it knows the ends of the master's queues; %d have no message in this copy",
            sum(map(len, ends.values())),
        )


def continue_queues(store: MessageStore, topics: Container[str], config: Path) -> None:
    """Let the queues of a promoted slave begin where its master's ended. For the start of a master; blocks.

    Raise ConfigError if the ends are not known.
    """
    path = config / FILE_NAME
    record = _read(path)
    if record is None:
        return
    if not record.is_known and store.min_log_offset > 0:
        raise ConfigError(_unknown(store, path))
    known = {topic: queues for topic, queues in record.ends.items() if topic in topics}
    begun = store.begin_queues_at(
        {(topic, queue_id): end for topic, queues in known.items() for queue_id, end in queues.items()}
    )
    store.flush()
    _delete(path)
    logger.info("a slave becomes a master: %d queues without a message begin where the last master's ended", begun)


def _unknown(store: MessageStore, path: Path) -> str:
    return (
        f"{store.config.root} is the copy of a slave that began at log offset {store.min_log_offset} and has not asked "
        "its master where the queues end: as a master it would use offsets twice. Start it as a slave while its master "
        "runs, for some seconds, or promote another slave. To accept that queues without a message in this copy begin "
        f"at 0 again, delete {path}"
    )


def _read(path: Path) -> _Record | None:
    """Return the content; None if there is no file. A damaged one knows nothing."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Record)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        logger.warning("%s is damaged, the ends of the master's queues are unknown: %s", path, error)
        return _Record()
    except OSError as error:
        raise StoreError.from_os_error(error, f"reading {path}") from error


def _write(path: Path, record: _Record) -> None:
    try:
        replace_file(path, msgspec.json.encode(record))
        sync_directory(path.parent)
    except OSError as error:
        raise StoreError.from_os_error(error, f"writing {path}") from error


def _delete(path: Path) -> None:
    try:
        path.unlink()
        sync_directory(path.parent)
    except OSError as error:
        raise StoreError.from_os_error(error, f"deleting {path}") from error
