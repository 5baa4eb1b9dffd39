"""Committed offsets of each group in each queue, and the file that stores them.

    "Orders@billing" -> {queue id: offset}        everything below the offset is consumed

`config/consumerOffset.json` is byte for byte as Apache writes it. Changes are in memory first and in the file at the
next `save`, as with Apache; changes since then survive a kill in `consumerOffset.marks` (see `mapped_offsets`). A power
cut may still lose the commits of the last seconds; consumers get those messages again. It never leaves an offset beyond
the end of its queue: see `attach`. Does not know which topics, groups or queues exist: the handlers decide which
commits are allowed.

Agrees with ConsumerOffsetManager (4.9.8). Additions: an offset moves backwards only if the caller asks for it, and the
table has a limit, as any peer can name groups.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from hanabi.broker.offsets.group_topic_pairs import OffsetPairs
from hanabi.broker.offsets.mapped_offsets import LEAP_MAX, NO_FILE, Found, MappedOffsets, digest_of, read_mapped_offsets
from hanabi.durable_table import DurableTable
from hanabi.errors import StoreError, SystemBusy
from hanabi.wire.bodies.offsets import ConsumerOffsetTable
from hanabi.wire.fastjson import decode_file

OFFSETS_MAX: Final = 2_000_000  # at some 100 bytes of memory each
NOT_FOUND: Final = -1

_SEPARATOR: Final = "@"  # in no name of a topic or group
_PIECES_A_PAUSE: Final = 100  # encoded without a pause: a quarter of a millisecond
_PAUSE_SECONDS: Final = 0.0005

logger = logging.getLogger(__name__)

Offsets = dict[int, int]


class ConsumerOffsets:
    """The table and its file. One thread changes it; `save` may run in any."""

    def __init__(self, path: Path | None, *, offsets_max: int = OFFSETS_MAX) -> None:
        """*path* None: nothing is persisted."""
        self._table: dict[str, Offsets] = {}
        self._offsets_max = offsets_max
        self._changed: dict[str, None] = {}  # since they were encoded
        self._pieces: dict[str, bytes] = {}  # the file, one piece per key: only changed pieces are encoded again
        self._is_saved = True
        self._saving = threading.Lock()
        self._logged: set[str] = set()  # keys whose move backwards was logged since the last save
        self._file: DurableTable[dict[str, Offsets]] | None = None
        self._marks: MappedOffsets | None = None
        self._flush_log: Callable[[], None] | None = None
        if path is not None:
            self._file = DurableTable(path, encode=self._encode_to_save, decode=self._decode_loaded)
            self._file.check_writable()
            self._digest = NO_FILE
            self._table = self._file.load() or {}
            self._changed.update(dict.fromkeys(reversed(self._table)))  # keeps the order of the file
            self._take_marks(path.with_suffix(".marks"))
        self._count = sum(map(len, self._table.values()))
        self._pairs = OffsetPairs(map(_topic_and_group, self._table))

    def __len__(self) -> int:
        """Return the number of offsets."""
        return self._count

    @property
    def pairs(self) -> int:
        """Number of pairs of a topic and a group that have offsets."""
        return len(self._table)

    # Reading

    def find(self, group: str, topic: str, queue_id: int) -> int:
        """Return the group's offset; -1 if it has none."""
        offsets = self._table.get(f"{topic}@{group}")
        return offsets.get(queue_id, NOT_FOUND) if offsets is not None else NOT_FOUND

    def of(self, group: str, topic: str) -> Offsets:
        """Return the group's offsets in the topic, by queue."""
        return dict(self._table.get(f"{topic}@{group}", {}))

    def topics_of(self, group: str) -> set[str]:
        """Return the topics in which the group has an offset."""
        return self._pairs.topics_of(group)

    def groups_of(self, topic: str) -> set[str]:
        """Return the groups that have an offset in the topic."""
        return self._pairs.groups_of(topic)

    def each_topic_and_group(self) -> Iterator[tuple[str, str]]:
        """Yield each pair of a topic and a group with offsets, one at a time. Commits may go on meanwhile."""
        return map(_topic_and_group, list(self._table))

    def table(self) -> ConsumerOffsetTable:
        """Return a copy of all offsets."""
        return ConsumerOffsetTable(offset_table={key: dict(offsets) for key, offsets in self._table.items()})

    def view(self) -> Mapping[str, Mapping[int, int]]:
        """Return all offsets under "topic@group", without a copy: for reading in the loop's thread."""
        return MappingProxyType(self._table)

    def encoded_members(self) -> Iterator[bytes]:
        """Yield each topic and group with its offsets, as `encode_body(table())` writes them, one at a time.

        Commits may go on meanwhile: their changes may or may not be included.
        """
        for key in list(self._table):
            offsets = self._table.get(key)
            if offsets is not None:
                yield b"%b:{%b}" % (_encode_key(key), _members(offsets))

    # Changing

    def commit(
        self, group: str, topic: str, queue_id: int, offset: int, client: str = "", *, backwards: bool = False
    ) -> bool:
        """Commit that the group has consumed everything below *offset*. Return False if it is further already; that
        stands.

        With *backwards* the new offset is taken as it is. Raise SystemBusy if there is no room for a new offset.
        """
        key = f"{topic}@{group}"
        offsets = self._table.get(key)
        kept = offsets.get(queue_id, NOT_FOUND) if offsets is not None else NOT_FOUND
        if offset <= kept:
            if offset == kept:
                return True
            if not backwards:
                return False
            self._log_move_back(key, queue_id, kept, offset, client)
            if self._marks is not None:
                self._marks.went_back()
        if offsets is None or queue_id not in offsets:
            offsets = self._with_one_more(key)
        offsets[queue_id] = offset
        self._changed[key] = None
        if self._marks is not None:
            self._marks.put(key, queue_id, offset)
        return True

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Set the group's offset to *offset*, also backwards."""
        self.commit(group, topic, queue_id, offset, "reset", backwards=True)

    def adopt(self, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """Take over offsets under "topic@group" from a slave's master, also backwards."""
        for key, queues in offsets.items():
            topic, group = _topic_and_group(key)
            for queue_id, offset in queues.items():
                self.commit(group, topic, queue_id, offset, "master", backwards=True)

    def clone(self, from_group: str, to_group: str, topic: str) -> None:
        """Replace the offsets of one group by those of another."""
        source = self._table.get(f"{topic}@{from_group}")
        if source is None:
            return
        key = f"{topic}@{to_group}"
        added = len(source) - len(self._table.get(key, {}))
        if self._count + added > self._offsets_max:
            raise SystemBusy(f"{key} gets no {len(source)} offsets: there are {self._count}, limit {self._offsets_max}")
        if self._marks is not None:
            self._marks.forget(key, self._table.get(key, ()))
            for queue_id, offset in source.items():
                self._marks.put(key, queue_id, offset)
        self._table[key] = dict(source)
        self._pairs.add(topic, to_group)
        self._count += added
        self._changed[key] = None

    def remove_group(self, group: str) -> None:
        """Remove all offsets of the group."""
        for topic in self.topics_of(group):
            self.remove(group, topic)

    def remove_topic(self, topic: str) -> None:
        """Remove the offsets of all groups in the topic."""
        for group in self.groups_of(topic):
            self.remove(group, topic)

    def _with_one_more(self, key: str) -> Offsets:
        """Return the offsets under *key*, to which the caller adds one."""
        if self._count >= self._offsets_max:
            raise SystemBusy(f"{key} gets no new offset: there are {self._count}, the limit")
        self._count += 1
        known = self._table.get(key)
        if known is not None:
            return known
        self._pairs.add(*_topic_and_group(key))
        return self._table.setdefault(key, {})

    def remove(self, group: str, topic: str) -> None:
        """Remove the offsets of the group in the topic."""
        key = f"{topic}@{group}"
        self._pairs.discard(topic, group)
        gone = self._table.pop(key, {})
        self._count -= len(gone)
        if self._marks is not None:
            self._marks.forget(key, gone)
        self._changed[key] = None

    def _log_move_back(self, key: str, queue_id: int, kept: int, offset: int, client: str) -> None:
        """Log once per key between two saves: a client that moves back and forth must not fill the log."""
        level = logging.DEBUG if key in self._logged else logging.WARNING
        self._logged.add(key)
        logger.log(level, "%s: offset of %s queue %d goes back from %d to %d", client, key, queue_id, kept, offset)

    # Persistence

    def attach(self, end_of: Callable[[str, int], int], flush_log: Callable[[], None]) -> None:
        """Bind the offsets to the log that they refer to. Blocks for the disk.

        *end_of* returns the end of a queue: a power cut may have lost the end of the log, and an offset beyond it would
        skip the next messages there. *flush_log* syncs the log; each save calls it first, so that the file is never
        ahead of the log.
        """
        self._flush_log = flush_log
        beyond = [
            (key, queue_id, offset, end)
            for key, offsets in self._table.items()
            for queue_id, offset in offsets.items()
            if offset > (end := end_of(_topic_and_group(key)[0], queue_id))
        ]
        if beyond:
            self._take_back(beyond)

    def _take_back(self, beyond: list[tuple[str, int, int, int]]) -> None:
        """Set each offset to the end of its queue, and save: a later start, with longer queues, could not detect it."""
        if self._marks is not None:
            self._marks.went_back()
        for key, queue_id, _, end in beyond:
            self._table[key][queue_id] = end
            self._changed[key] = None
            if self._marks is not None:
                self._marks.put(key, queue_id, end)
        key, queue_id, offset, end = beyond[0]
        logger.warning(
            "%d offsets lay behind the end of their queues and are set to it, as the end of the log was lost"
            " (%s queue %d: %d became %d)",
            *(len(beyond), key, queue_id, offset, end),
        )
        try:
            self.save()
        except StoreError as error:
            logger.error("the corrected offsets could not be saved, retrying at the next interval: %s", error)

    def save(self) -> None:
        """Write the file if anything changed. Blocks for the disk: first for the log, see `attach`."""
        with self._saving:
            self._logged.clear()
            if self._file is None or (self._is_saved and not self._changed):
                return
            self._is_saved = False
            self._file.save(self._table)
            self._is_saved = True
            if self._marks is not None:
                self._marks.saved()

    def _take_marks(self, path: Path) -> None:
        """Restore the commits since the last save, if the previous process left marks of them."""
        try:
            found = read_mapped_offsets(path.read_bytes())
        except FileNotFoundError:
            found = None
        except OSError as error:
            logger.warning("%s cannot be read: %s", path, error.strerror or error)
            found = None
        if found is not None and found.damaged:
            logger.warning(
                "%s: %d marks are damaged; their groups go on from the last save, and get again what they have consumed"
                " since",
                *(path, found.damaged),
            )
        if self._file is not None and self._file.was_empty:
            self._replace_lost(self._file.path, found)
        elif found is not None and self._digest in found.digests and (newer := self._go_forward(found)):
            logger.info("%d offsets were committed after the last save, and are kept", newer)
        everything = ((key, offsets) for key, offsets in self._table.items())
        places = [((key, queue_id), offset) for key, offsets in everything for queue_id, offset in offsets.items()]
        self._marks = MappedOffsets(path, places, self._digest)

    def _replace_lost(self, path: Path, found: Found | None) -> None:
        """Restore the offsets of an empty file from the marks, which hold all of them, and log the consequences."""
        if found is not None and found.is_checked and found.digests and (taken := self._go_forward(found)):
            logger.warning("%s is empty: %d offsets are taken from its marks, and no group goes back", path, taken)
            return
        logger.error(
            "%s is empty: no group has an offset now. A consumer begins where its own setting says (consumeFromWhere):"
            " at the end, which passes over what it has not read, or at the begin, which brings everything again."
            " Before consumers start, put a copy of the file in its place, or set offsets (hanabi offset reset)",
            path,
        )

    def _go_forward(self, found: Found) -> int:
        """Apply the offsets that are newer than the file; return their number."""
        newer = 0
        for (key, queue_id), offset in found.offsets.items():
            saved = self._table.get(key, {}).get(queue_id, NOT_FOUND)
            if not found.is_checked and offset - saved > LEAP_MAX:
                logger.warning("%s queue %d: offset %d is implausible, keeping %d", key, queue_id, offset, saved)
            elif offset > saved:
                self._table.setdefault(key, {})[queue_id] = offset
                self._changed[key] = None
                newer += 1
        return newer

    def _encode_to_save(self, table: dict[str, Offsets]) -> bytes:
        raw = self._encode(table)
        if self._flush_log is not None:
            self._flush_log()
        if self._marks is not None:
            self._marks.saving(raw)
        return raw

    def _decode_loaded(self, raw: bytes) -> dict[str, Offsets]:
        table = _decode(raw)
        self._digest = digest_of(raw)
        return table

    def _encode(self, table: dict[str, Offsets]) -> bytes:
        """Return the file's content. Each step is safe while the other thread commits: a key that changes meanwhile is
        encoded before or after the change, and is in `_changed` again. The pauses are for that thread, the event
        loop's."""
        changed, pieces = self._changed, self._pieces
        for number in range(len(changed)):
            try:
                key, _ = changed.popitem()
            except KeyError:
                break
            offsets = table.get(key)
            if offsets:
                pieces[key] = b"\n\t\t%b:{%b\n\t\t}" % (_encode_key(key), _members(offsets))
            else:
                pieces.pop(key, None)
            if number % _PIECES_A_PAUSE == _PIECES_A_PAUSE - 1:
                time.sleep(_PAUSE_SECONDS)
        if not pieces:
            return b'{\n\t"offsetTable":{}\n}'
        return b'{\n\t"offsetTable":{%b\n\t}\n}' % b",".join(pieces.values())


def _topic_and_group(key: str) -> tuple[str, str]:
    topic, _, group = key.partition(_SEPARATOR)
    return topic, group


_encode_key = msgspec.json.Encoder().encode


def _members(offsets: Offsets) -> bytes:
    """Format as `0:5,1:3`: Python's text of a dict of numbers is fastjson's but for the spaces, and takes one step."""
    return str(offsets)[1:-1].replace(" ", "").encode()


def _decode(raw: bytes) -> dict[str, Offsets]:
    return decode_file(raw, ConsumerOffsetTable).offset_table
