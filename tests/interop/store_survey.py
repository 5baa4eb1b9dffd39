"""Everything that a store answers about some queues, as one value: two such values are compared, not two stores."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from hanabi.store.read.offset_by_time import BoundaryType
from hanabi.wire.message.properties import decode_properties
from hanabi.wire.message.record import Record, decode_records
from tests.interop.store_views import ALL_TAGS, StoreView

Queue = tuple[str, int]
Boundaries = Collection[BoundaryType | None]  # which ways of searching by time there are; None is 4.9's
BY_4_9: Boundaries = (None,)
BY_5: Boundaries = (BoundaryType.LOWER, BoundaryType.UPPER)

_EVER_MS = 2**62
_TIME_STEP = 7  # every so many messages their times are asked for: a prime, so that all places in a file have a turn


class Survey(NamedTuple):
    """Answers by question. Records are bytes as stored."""

    log_at_start: tuple[int, int]
    log_at_end: tuple[int, int]  # Apache's grows by being asked: it notes each pull from an offset that is not there
    queues: dict[Queue, list[bytes]]  # their messages
    ranges: dict[Queue, tuple[int, int]]
    edges: dict[tuple[Queue, int], tuple[int, ...]]  # pulls where nothing is, without what was found
    tags: dict[tuple[Queue, str], list[bytes]]
    places: dict[int, bytes]
    keys: dict[tuple[str, str, int, int], list[bytes]]
    times: dict[tuple[Queue, int, BoundaryType | None], int]
    earliest: dict[Queue, int]

    def records(self) -> list[Record]:
        """Return every message of every queue."""
        return [record for queue in self.queues.values() for record in decode_records(b"".join(queue))]

    def repeated(self) -> set[bytes]:
        """Return the messages that came more than once for one key."""
        return {record for found in self.keys.values() for record in found if found.count(record) > 1}

    def without_repeats(self) -> "Survey":
        """Return the same, but for one key every message once."""
        return self._replace(keys={question: list(dict.fromkeys(found)) for question, found in self.keys.items()})

    def with_keys_of_all_times(self) -> "Survey":
        """Return the same, but for the questions by key and time.

        An index counts whole seconds from the beginning of a file, so their answers depend on where a file begins, and
        that on where a recovery began.
        """
        always = (0, _EVER_MS)
        return self._replace(keys={asked: found for asked, found in self.keys.items() if asked[2:] == always})


def survey(view: StoreView, queues: Iterable[Queue], boundaries: Boundaries) -> Survey:
    """Ask *view* everything about *queues*."""
    queues = sorted(queues)
    log_at_start = view.log_range()
    answers = Survey(log_at_start, log_at_start, {}, {}, {}, {}, {}, {}, {}, {})
    for queue in queues:
        low, high = answers.ranges[queue] = view.queue_range(*queue)
        records = answers.queues[queue] = _messages(view, queue)
        for offset in (low - 1, high, high + 1, high + 1000):
            answers.edges[queue, offset] = view.pull(*queue, offset)[:4]
        decoded = decode_records(b"".join(records))
        properties = [decode_properties(record.properties) for record in decoded]
        for tag in {found.get("TAGS", "none has this") for found in properties}:
            answers.tags[queue, tag] = _messages(view, queue, tag)
        for record, found in zip(decoded, properties, strict=True):
            answers.places[record.log_offset] = view.by_place(record.log_offset)
            _ask_keys(view, record, found, answers)
        _ask_times(view, queue, decoded, boundaries, answers)
        answers.earliest[queue] = view.earliest_time(*queue)
    return answers._replace(log_at_end=view.log_range())


def differences(earlier: Survey, later: Survey) -> list[str]:
    """Return which answers differ, in few words: the records themselves would fill the screen."""
    told: list[str] = []
    if earlier.log_at_end != later.log_at_start:
        told.append(f"log: {earlier.log_at_end} != {later.log_at_start}")
    for part in ("ranges", "queues", "edges", "tags", "places", "keys", "times", "earliest"):
        one, other = getattr(earlier, part), getattr(later, part)
        told += [
            f"{part} {question}: {_brief(one.get(question))} != {_brief(other.get(question))}"
            for question in sorted({*one, *other}, key=str)
            if one.get(question) != other.get(question)
        ]
    return told


def _messages(view: StoreView, queue: Queue, tag: str = ALL_TAGS) -> list[bytes]:
    """Return all messages of a queue. How many of them come with one pull is not looked at: Apache stops at a file's
    end."""
    offset, high = view.queue_range(*queue)
    found: list[bytes] = []
    while offset < high:
        pulled = view.pull(*queue, offset, tag)
        found += _split(pulled.records)
        assert pulled.next_offset > offset, (queue, offset, pulled)
        offset = pulled.next_offset
    return found


def _ask_keys(view: StoreView, record: Record, properties: dict[str, str], answers: Survey) -> None:
    stored = record.store_timestamp_ms
    narrow = (stored - 1000, stored + 1000), (stored + 60_000, _EVER_MS)
    for name, periods in (("UNIQ_KEY", ((0, _EVER_MS),)), ("KEYS", ((0, _EVER_MS), *narrow))):
        for key in properties.get(name, "").split():
            for begin, end in periods:
                if (question := (record.topic, key, begin, end)) not in answers.keys:
                    answers.keys[question] = _split(view.by_key(*question))


def _ask_times(view: StoreView, queue: Queue, records: list[Record], boundaries: Boundaries, answers: Survey) -> None:
    if not records:
        return
    stored = [record.store_timestamp_ms for record in records]
    times = {stored[0] - 5000, stored[-1] + 5000}
    for time_ms in (*stored[::_TIME_STEP], stored[-1]):
        times |= {time_ms - 1, time_ms, time_ms + 1}
    for boundary in boundaries:
        for time_ms in times:
            answers.times[queue, time_ms, boundary] = view.by_time(*queue, time_ms, boundary)


def _split(records: bytes) -> list[bytes]:
    pieces: list[bytes] = []
    position = 0
    for record in decode_records(records):
        pieces.append(records[position : position + record.size])
        position += record.size
    return pieces


def _brief(answer: object) -> str:
    if isinstance(answer, list):
        return f"{len(answer)} messages at {[record.log_offset for record in decode_records(b''.join(answer))]}"
    if isinstance(answer, bytes):
        return f"{len(answer)} bytes"
    return str(answer)
