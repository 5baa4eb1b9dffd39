"""Summary of a store for an audit: the extent of the log, the queues, and the ranges of their entries.

Small: one row per file. The driver holds it, and finds the gaps between files.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from hanabi.spark.pipelines.audit.queues import gap_reason

Gap = tuple[str, str, int, int, None, None, str]


class KnownQueue(NamedTuple):
    """One queue. `first_at` is the log offset of its message with offset 0."""

    topic: str
    queue_id: int
    first_at: int | None
    files: int


class Span(NamedTuple):
    """A queue file with room for the entries [room, room_end); it has entries in [first, end), or none."""

    room: int
    room_end: int
    first: int | None
    end: int | None


class IndexedPart(NamedTuple):
    """Range of log offsets that one index file covers."""

    begin: int
    end: int


@dataclass(frozen=True)
class Layout:
    log_end: int
    log_files: int
    known_queues: tuple[KnownQueue, ...]
    spans: dict[tuple[str, int], list[Span]]
    indexes: tuple[IndexedPart, ...]

    @staticmethod
    def read(found: DataFrame) -> "Layout":
        """Build the layout from the rows that tasks found."""
        columns = ["kind", "topic", "queue_id", "queue_offset", "log_offset", "size", "number"]
        rows = found.where("kind in ('log', 'queue', 'span', 'index')").select(*columns).collect()
        spans: dict[tuple[str, int], list[Span]] = defaultdict(list)
        for row in rows:
            if row["kind"] == "span":
                room = row["size"]
                spans[row["topic"], row["queue_id"]].append(
                    Span(room, room + row["number"], row["queue_offset"], row["log_offset"])
                )
        (log,) = (row for row in rows if row["kind"] == "log")
        return Layout(
            log_end=log["log_offset"],
            log_files=log["number"],
            known_queues=tuple(
                KnownQueue(row["topic"], row["queue_id"], row["log_offset"], row["number"])
                for row in rows
                if row["kind"] == "queue"
            ),
            spans={place: sorted(mine) for place, mine in spans.items()},
            indexes=tuple(IndexedPart(row["log_offset"], row["size"]) for row in rows if row["kind"] == "index"),
        )

    @property
    def covered(self) -> tuple[int, int]:
        """The first and the last log offset that the index covers."""
        if not self.indexes:
            return 0, -1
        return min(index.begin for index in self.indexes), max(index.end for index in self.indexes)

    def gaps(self) -> list[Gap]:
        """Return the ranges without entries that span files, or that precede the first entry."""
        return [
            ("gap", topic, queue_id, first, None, None, gap_reason(first, end))
            for (topic, queue_id), spans in self.spans.items()
            for first, end in _gaps(spans)
        ]

    def queues(self, spark: SparkSession) -> DataFrame:
        """Return the end of each queue and the log offset of its first message."""
        rows = [(queue.topic, queue.queue_id, self._end(queue), queue.first_at, True) for queue in self.known_queues]
        return spark.createDataFrame(rows, "topic string, queue_id int, end long, first_at long, is_queue boolean")

    def _end(self, queue: KnownQueue) -> int:
        """Return the offset after the last entry of *queue*."""
        spans = self.spans.get((queue.topic, queue.queue_id), [])
        return max((span.end for span in spans if span.end is not None), default=0)


def _gaps(spans: list[Span]) -> Iterator[tuple[int, int]]:
    expected = spans[0].room
    for span in spans:
        if span.first is None or span.end is None:
            continue
        # A missing file is reported once, not for each of its entries.
        if expected < span.first and any(each.room <= expected < each.room_end for each in spans):
            yield expected, span.first
        expected = span.end
