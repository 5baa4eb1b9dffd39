"""Sources of an archive: a cluster, or the files of a broker.

Both return the first and end offsets of queues, and read the messages between offsets.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession

from hanabi.errors import ConfigError
from hanabi.message import MessageQueue
from hanabi.spark.broker.cluster import Cluster, ask_cluster
from hanabi.spark.broker.options import ReadOptions, parse_batch_options
from hanabi.spark.broker.topics import Wanted
from hanabi.spark.shared.bounds import Bound
from hanabi.spark.shared.offsets import Offsets, to_json
from hanabi.spark.shared.queue_marks import Marks, Queues
from hanabi.spark.shared.selection import Selection
from hanabi.spark.shared.suggestions import did_you_mean
from hanabi.spark.store.options import LIGHT_QUEUE_PREFIX
from hanabi.spark.store.plan import wanted_queues
from hanabi.spark.store.queue_marks import marks_in_store, since_in_store
from hanabi.store.inspection.home import FileReader, StoreHome
from hanabi.store.inspection.log_lookup import LogLookup
from hanabi.store.inspection.queues import find_queues

ALL_TOPICS = ".*"
PATIENCE_S = 60.0  # for brokers that are unreachable during a run


@dataclass(frozen=True)
class Extent:
    """Messages [first, end) that each queue has now."""

    first: Offsets
    end: Offsets


class ArchiveSource(Queues, Protocol):
    """Interface of both sources. A run calls `extent` before it reads, and again afterwards."""

    def extent(self) -> Extent: ...

    def at_time(self, extent: Extent, time_ms: int) -> Offsets:
        """Return the first offset of each queue stored at *time_ms* or later; its end if there is none."""

    def read(self, start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int]) -> DataFrame:
        """Return the messages from *start* to *end*; none of queues that are not in *end*."""

    def commit_progress(self, group: str, offsets: Offsets) -> None:
        """Commit *offsets* for *group* to brokers, if there are any."""


class ClusterSource:
    """Source for topics of a cluster."""

    def __init__(self, spark: SparkSession, connection: Mapping[str, str], topics: Mapping[str, str]) -> None:
        self._spark, self._connection = spark, dict(connection)
        self._options: ReadOptions = parse_batch_options({**connection, **topics}).read
        self._tasks = spark.sparkContext.defaultParallelism
        self._know_group: set[str] = set()  # brokers that know the group whose offsets are committed
        self._patience_s = 0.0  # no retries until the cluster has answered once

    def extent(self) -> Extent:
        async def ask(cluster: Cluster) -> Extent:
            queues = await cluster.queues()
            return Extent(await cluster.first_offsets(queues), await cluster.end_offsets(queues))

        found = ask_cluster(self._options, ask, self._patience_s)
        self._patience_s = PATIENCE_S
        return found

    def firsts(self, queues: Iterable[MessageQueue]) -> Offsets:
        return ask_cluster(self._options, lambda cluster: cluster.first_offsets(queues), PATIENCE_S)

    def marks(self, offsets: Mapping[MessageQueue, int]) -> Marks:
        return ask_cluster(self._options, lambda cluster: cluster.marks(offsets), PATIENCE_S) if offsets else {}

    def since(self, times_ms: Mapping[MessageQueue, int], first: Offsets, end: Offsets) -> Offsets:
        return ask_cluster(self._options, lambda cluster: cluster.since(times_ms, first, end), PATIENCE_S)

    def at_time(self, extent: Extent, time_ms: int) -> Offsets:
        bound = Bound("starting", "earliest", time_ms=time_ms)
        return ask_cluster(
            self._options,
            lambda cluster: cluster.resolve(bound, sorted(extent.end), extent.first, extent.end),
            PATIENCE_S,
        )

    def read(self, start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int]) -> DataFrame:
        return (
            self._spark.read.format("rocketmq")
            .options(
                **self._connection,
                assign=_assigned(end),
                startingOffsets=json.dumps(to_json({queue: start[queue] for queue in end})),
                endingOffsets=json.dumps(to_json(end)),
                minPartitions=str(self._tasks),
                retryTimeoutMs=str(int(PATIENCE_S * 1_000)),
            )
            .load()
        )

    def commit_progress(self, group: str, offsets: Offsets) -> None:
        ask_cluster(
            replace(self._options, group=group),
            lambda cluster: cluster.commit_progress(group, offsets, self._know_group),
            PATIENCE_S,
        )


class StoreSource:
    """Source for the files of one broker. *broker* is its name, or empty: the files do not contain it."""

    def __init__(
        self, spark: SparkSession, directory: str, broker: str, topics: Mapping[str, str], on_damage: str = "fail"
    ) -> None:
        self._spark, self._broker, self._directory, self._on_damage = spark, broker, directory, on_damage
        self._home = StoreHome.open(Path(directory))
        named = topics.get("subscribe")
        self._topics = None if named is None else frozenset(named.split(","))
        self._wanted = Wanted(pattern=topics.get("subscribePattern", ALL_TOPICS))
        self._tasks = spark.sparkContext.defaultParallelism

    def extent(self) -> Extent:
        found = Extent({}, {})
        with FileReader() as reader:
            log_min = LogLookup(self._home, reader).min_offset
            queues = self._home.queues
            # A broker that just started has written no queue yet.
            topics = self._chosen({path.name for path in queues.iterdir()} if queues.is_dir() else set())
            for queue in find_queues(queues) if topics else ():
                if queue.topic in topics:
                    key = MessageQueue(queue.topic, self._broker, queue.queue_id)
                    found.end[key] = end = queue.end_offset(reader)
                    found.first[key] = queue.min_offset(reader, end, log_min)
        return found

    def firsts(self, queues: Iterable[MessageQueue]) -> Offsets:
        first = self.extent().first
        return {queue: first[queue] for queue in queues}

    def marks(self, offsets: Mapping[MessageQueue, int]) -> Marks:
        return marks_in_store(self._home, offsets)

    def since(self, times_ms: Mapping[MessageQueue, int], first: Offsets, end: Offsets) -> Offsets:
        return since_in_store(self._home, times_ms, first, end)

    def at_time(self, extent: Extent, time_ms: int) -> Offsets:
        selection = Selection(topics=frozenset(queue.topic for queue in extent.end), from_ms=time_ms)
        with FileReader() as reader:
            later = {
                MessageQueue(each.queue.topic, self._broker, each.queue.queue_id): each.first
                for each in wanted_queues(self._home, selection, reader)
            }
        return {queue: min(later.get(queue, end), end) for queue, end in extent.end.items()}

    def read(self, start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int]) -> DataFrame:
        options: dict[str, Any] = {
            "assign": json.dumps(_by_topic(end)),
            "startingOffsets": json.dumps(_by_queue({queue: start[queue] for queue in end})),
            "endingOffsets": json.dumps(_by_queue(end)),
            "minPartitions": str(self._tasks),
            "onDamage": self._on_damage,
        }
        if self._broker:
            options["brokerName"] = self._broker
        return self._spark.read.format("rocketmq-store").options(**options).load(self._directory)

    def commit_progress(self, group: str, offsets: Offsets) -> None:
        raise ConfigError(f"group={group}: offsets cannot be committed to the files of a broker; leave it out")

    def _chosen(self, there: set[str]) -> set[str]:
        if self._topics is None:
            return {topic for topic in self._wanted.matching(there) if not topic.startswith(LIGHT_QUEUE_PREFIX)}
        for topic in sorted(self._topics - there):
            raise ConfigError(f"{self._home.root} has no topic {topic!r}{did_you_mean(topic, there)}")
        return set(self._topics)


def _assigned(queues: Iterable[MessageQueue]) -> str:
    told: dict[str, dict[str, list[int]]] = {}
    for queue in sorted(queues):
        told.setdefault(queue.topic, {}).setdefault(queue.broker_name, []).append(queue.queue_id)
    return json.dumps(told)


def _by_topic(queues: Iterable[MessageQueue]) -> dict[str, list[int]]:
    told: dict[str, list[int]] = {}
    for queue in sorted(queues):
        told.setdefault(queue.topic, []).append(queue.queue_id)
    return told


def _by_queue(offsets: Mapping[MessageQueue, int]) -> dict[str, dict[str, int]]:
    told: dict[str, dict[str, int]] = {}
    for queue in sorted(offsets):
        told.setdefault(queue.topic, {})[str(queue.queue_id)] = offsets[queue]
    return told
