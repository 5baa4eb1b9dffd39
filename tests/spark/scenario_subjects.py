"""Subjects of the standard scenarios: every source, the sink, and every pipeline, each by the same few calls.

A subject has one topic. `put` brings messages into it, `take` runs the subject once and tells how many of them its
result has: those of earlier runs too, where it keeps its place (a stream, an archive).
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable

from hanabi.spark.broker_source import BrokerSource
from hanabi.spark.sink.options import parse_sink_options
from hanabi.spark.sink.row_ids import ROW_ID_PROPERTY, RowIds
from hanabi.spark.sink.writer import send_rows
from hanabi.spark.store_source import StoreSource
from tests.spark import reading
from tests.spark.broker_world import rows
from tests.spark.decoded import rows_of
from tests.spark.pipelines.running import run_pipeline
from tests.spark.scenario_world import World

AT: Final = "2024-05-01T10:05:00Z"


class Subject:
    """Base of all. *is_lenient*: go on where messages are lost; *skips*: leave out bodies that cannot be read."""

    name: ClassVar[str]
    topic: ClassVar[str] = "Input"
    keeps_place: ClassVar[bool] = False  # and so notices a topic that was made again between two runs
    reads_bodies: ClassVar[bool] = True
    needs_spark: ClassVar[bool] = True

    def body(self, number: int) -> bytes:
        return b"%d" % number

    def put(self, world: World, numbers: Iterable[int], queues: int) -> None:
        world.put(self.topic, [self.body(number) for number in numbers], queues)

    def take(self, world: World, *, is_lenient: bool = False, skips: bool = False) -> int:
        raise NotImplementedError


class Batch(Subject):
    name, needs_spark = "batch", False

    def take(self, world: World, *, is_lenient: bool = False, skips: bool = False) -> int:
        options = _options(is_lenient, skips)
        return len({row["body"] for row in rows(world, "body", subscribe=self.topic, **options)})


class StoreBatch(Subject):
    name, needs_spark = "store batch", False

    def take(self, world: World, *, is_lenient: bool = False, skips: bool = False) -> int:
        options: dict[str, Any] = {"onDamage": "skip"} if skips else {}
        found = reading.rows(world.written(self.topic), subscribe=self.topic, **options)
        return len({row["body"] for row in found})


class Stream(Subject):
    """Offsets are kept as a checkpoint keeps them, and every run has a reader of its own, as after a restart."""

    name, needs_spark, keeps_place = "stream", False, True

    def __init__(self) -> None:
        self._offsets: Any = None
        self._found: list[bytes] = []

    def source(self, world: World) -> tuple[type[BrokerSource | StoreSource], dict[str, Any]]:
        return BrokerSource, {"namesrv": world.namesrv, "discoveryMs": 0}

    def take(self, world: World, *, is_lenient: bool = False, skips: bool = False) -> int:
        kind, where = self.source(world)
        given = where | {"subscribe": self.topic, "startingOffsets": "earliest", "offsetPollMs": 0}
        source = kind({name.lower(): str(value) for name, value in (given | _options(is_lenient, skips)).items()})
        stream = source.streamReader(source.schema())
        start = self._offsets or stream.initialOffset()
        end = stream.latestOffset(start, ReadAllAvailable())
        found = [row for task in stream.partitions(start, end) for each in stream.read(task) for row in rows_of(each)]
        self._found += [row["body"] for row in found]
        self._offsets = json.loads(json.dumps(end))
        return len(self._found)


class StoreStream(Stream):
    name = "store stream"

    def source(self, world: World) -> tuple[type[BrokerSource | StoreSource], dict[str, Any]]:
        return StoreSource, {"path": world.written(self.topic)}


class Sink(Subject):
    """Its topic is where it writes to: what happens to that must not hold it up, and every row must arrive."""

    name, needs_spark, reads_bodies = "sink", False, False

    def __init__(self) -> None:
        self._batches = 0

    def put(self, world: World, numbers: Iterable[int], queues: int) -> None:
        bodies = [self.body(number) for number in numbers]
        options = parse_sink_options({"namesrv": world.namesrv, "topic": self.topic})
        batches = pa.table({"body": bodies, "orderingKey": range(len(bodies))}).to_batches(max_chunksize=100)
        assert send_rows(options, iter(batches), RowIds(f"query/{self._batches}", 0)) == len(bodies)
        self._batches += 1
        world.stored[self.topic] += len(bodies)

    def take(self, world: World, *, is_lenient: bool = False, skips: bool = False) -> int:
        found = rows(world, "properties body", subscribe=self.topic, onDamage="raw")
        return len({row["properties"].get(ROW_ID_PROPERTY, row["body"]) for row in found})


class Piped(Subject):
    """A pipeline. *fact* is the one that counts messages."""

    fact: ClassVar[str]

    def options(self, world: World, *, is_lenient: bool, skips: bool) -> dict[str, Any]:
        damage = {"on_damage": "skip"} if skips else {}
        return {"namesrv": world.namesrv} | damage

    def take(self, world: World, *, is_lenient: bool = False, skips: bool = False) -> int:
        options = self.options(world, is_lenient=is_lenient, skips=skips)
        outcome = run_pipeline(world.spark, self.name.partition(" ")[0], **options)
        assert outcome.complaint is None
        count = outcome.facts[self.fact]
        assert isinstance(count, int)
        return count


class Archive(Piped):
    name, fact, keeps_place = "archive", "messages_in_archive", True

    def options(self, world: World, *, is_lenient: bool, skips: bool) -> dict[str, Any]:
        loss = {"fail_on_data_loss": False} if is_lenient or skips else {}
        more: dict[str, Any] = {"topics": [self.topic], "to": str(world.out / self.name), "compact": False}
        return super().options(world, is_lenient=is_lenient, skips=skips) | loss | more


class ArchiveOfFiles(Archive):
    name = "archive of files"

    def options(self, world: World, *, is_lenient: bool, skips: bool) -> dict[str, Any]:
        given = super().options(world, is_lenient=is_lenient, skips=skips)
        del given["namesrv"]
        return given | {"store": str(world.written(self.topic))}


class Replay(Piped):
    name, fact = "replay", "messages_sent"
    target: ClassVar[str] = "Replayed"
    mark: ClassVar[str] = "CAME_FROM"

    def options(self, world: World, *, is_lenient: bool, skips: bool) -> dict[str, Any]:
        world.make(self.target, 2)
        chosen = {"topics": [self.topic], "to": self.target, "mark": self.mark}
        return super().options(world, is_lenient=is_lenient, skips=skips) | chosen


class DeadLetters(Piped):
    name, fact, topic = "dead-letters", "dead_letters", "%DLQ%mortal"

    def options(self, world: World, *, is_lenient: bool, skips: bool) -> dict[str, Any]:
        return super().options(world, is_lenient=is_lenient, skips=skips) | {"groups": ["mortal"]}


class Trace(Piped):
    name, fact, topic = "trace", "sends", "Traces"

    def body(self, number: int) -> bytes:
        fields = ("Pub", "1000", "R", "g", "T", f"{number:032X}", "null", "null", "h:1", "3", "7", "0", "null", "true")
        return "\x01".join(fields).encode() + b"\x02"

    def options(self, world: World, *, is_lenient: bool, skips: bool) -> dict[str, Any]:
        return super().options(world, is_lenient=is_lenient, skips=skips) | {"topics": [self.topic]}


class Traffic(Piped):
    name, fact = "traffic", "messages"

    def options(self, world: World, *, is_lenient: bool, skips: bool) -> dict[str, Any]:
        return super().options(world, is_lenient=is_lenient, skips=skips) | {"topics": [self.topic]}


class Orders(Piped):
    name, fact, topic, keeps_place = "orders", "orders_in_all", "Orders", True

    def body(self, number: int) -> bytes:
        order = {"order": f"O-{number}", "product": "tea", "quantity": 1, "price": 1, "at": AT}
        return json.dumps(order).encode()

    def options(self, world: World, *, is_lenient: bool, skips: bool) -> dict[str, Any]:
        loss = {"fail_on_data_loss": False} if is_lenient else {}
        more = {"topic": self.topic, "output": str(world.out / "orders")}
        return super().options(world, is_lenient=is_lenient, skips=skips) | loss | more


class Audit(Piped):
    """Looks at the files alone: what is deleted is no difference, and bodies are not unpacked."""

    name, fact, reads_bodies = "audit", "queue_entries", False

    def options(self, world: World, *, is_lenient: bool, skips: bool) -> dict[str, Any]:
        return {"store": str(world.written(self.topic))}


def _options(is_lenient: bool, skips: bool) -> dict[str, Any]:
    loss = {"failOnDataLoss": False} if is_lenient else {}
    return loss | ({"onDamage": "skip"} if skips else {})


SUBJECTS: Final[Sequence[type[Subject]]] = (
    Batch,
    StoreBatch,
    Stream,
    StoreStream,
    Sink,
    Archive,
    ArchiveOfFiles,
    Replay,
    DeadLetters,
    Trace,
    Traffic,
    Orders,
    Audit,
)

# The audit counts what all topics have, so it comes before those that send.
RETRIED: Final[Sequence[type[Piped]]] = (Audit, Archive, ArchiveOfFiles, DeadLetters, Traffic, Trace, Orders, Replay)
