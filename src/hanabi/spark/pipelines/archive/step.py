"""One step of an archive: read the messages between offsets, write them, verify the files, commit.

For Delta tables a step has two phases: first its offsets are committed as planned, then the messages are written as the
transaction of that version, which Delta applies only once. If it is killed in between, the next run writes the same
messages again.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from hanabi.errors import MQError
from hanabi.message import MessageQueue
from hanabi.spark.pipelines.archive.check import Written, check, look_at
from hanabi.spark.pipelines.archive.home import ArchiveHome
from hanabi.spark.pipelines.archive.layout import PARTITIONED_BY, WHOLE, with_hour
from hanabi.spark.pipelines.archive.plan import Backlog
from hanabi.spark.pipelines.archive.source import ArchiveSource
from hanabi.spark.pipelines.archive.state import ArchivedQueue, ArchiveState, with_queues
from hanabi.spark.pipelines.contract import Progress
from hanabi.spark.shared.offsets import Offsets, describe
from hanabi.spark.shared.queue_marks import broken_off


@dataclass(frozen=True)
class StepWriter:
    """Writer of the steps of one archive."""

    spark: SparkSession
    home: ArchiveHome
    source: ArchiveSource
    format: str
    compression: str
    fail_on_data_loss: bool
    progress: Progress

    def write(self, left: Backlog, stop: Offsets) -> None:
        """Archive the messages between the start of *left* and *stop*."""
        if self.format == "delta":
            self._plan(left, stop)
            self.finish_planned()
        else:
            self._write_parquet(left, stop)

    def _write_parquet(self, left: Backlog, stop: Offsets) -> None:
        files, staging = self.home.files, self.home.staging()
        archived, lost, messages, moves = list[ArchivedQueue](), 0, 0, list[tuple[str, str]]()
        if stop:
            self._save(self.source.read(left.start, stop), files.at(staging))
            self.progress.step("checking what was written")
            written = look_at(self.spark.read.schema(WHOLE).parquet(files.at(staging)))
            archived, lost = check(left.start, stop, written, fail_on_data_loss=self.fail_on_data_loss)
            self._check_going_on(left, stop)
            messages = _count(written)
            moves = [
                (found.name, found.name.removeprefix(f"{staging}/"))
                for found in files.files(staging)
                if found.name.endswith(".parquet")
            ]
        self.progress.step("committing")
        state = self.home.state
        self._commit(
            [*_not_known(left, state), *archived],
            lost + left.lost,
            messages=messages,
            moves=moves,
            loose=sorted({*state.loose, *(target.rpartition("/")[0] for _, target in moves)}),
        )

    def _check_going_on(self, left: Backlog, stop: Mapping[MessageQueue, int]) -> None:
        """Raise if a queue of the step was re-created since *left* was computed: its messages have changed."""
        known = self.home.state.ends()
        going_on = [queue for queue in stop if left.start[queue] == known.get(queue)]
        for queue in broken_off(self.home.state.positions().only(going_on), left.end, self.source):
            raise MQError(f"{describe(queue)} was re-created while it was archived: this step is discarded")

    def _save(self, messages: DataFrame, url: str) -> None:
        (
            with_hour(messages)
            .write.partitionBy(*PARTITIONED_BY)
            .option("compression", self.compression)
            .parquet(url, mode="overwrite")
        )

    def _plan(self, left: Backlog, stop: Mapping[MessageQueue, int]) -> None:
        self._check_going_on(left, stop)
        planned = [_queue(queue, left.start[queue], end) for queue, end in stop.items()]
        self._commit(_not_known(left, self.home.state), left.lost, planned=planned)

    def finish_planned(self) -> None:
        """Write the planned messages, of this run or of a run that was killed."""
        planned = self.home.state.planned
        if not planned:
            return
        start, stop = {each.queue: each.first for each in planned}, {each.queue: each.end for each in planned}
        url, state = self.home.files.url, self.home.state
        (
            with_hour(self.source.read(start, stop))
            .write.format("delta")
            .mode("append")
            .partitionBy(*PARTITIONED_BY)
            .option("compression", self.compression)
            .option("txnAppId", state.id)
            .option("txnVersion", state.version)
            .save(url)
        )
        self.progress.step("checking what was written")
        written = look_at(in_ranges(self.spark.read.format("delta").load(url), planned))
        archived, lost = check(start, stop, written, fail_on_data_loss=self.fail_on_data_loss)
        self._commit(archived, lost, loose=[url], messages=_count(written))

    def _commit(
        self,
        changed: list[ArchivedQueue],
        lost: int,
        *,
        planned: list[ArchivedQueue] | None = None,
        moves: list[tuple[str, str]] | None = None,
        loose: list[str] | None = None,
        messages: int = 0,
    ) -> None:
        state = self.home.state
        self.home.commit(
            ArchiveState(
                id=state.id or uuid.uuid4().hex,
                version=state.version + 1,
                format=self.format,
                messages=state.messages + messages,
                lost=state.lost + lost,
                queues=with_queues(state, changed),
                planned=planned or [],
                moves=moves or [],
                loose=state.loose if loose is None else loose,
            )
        )


def _not_known(left: Backlog, state: ArchiveState) -> list[ArchivedQueue]:
    """Return the queues that are new to the archive: it must remember their first offsets even if they are empty."""
    known = state.ends()
    return [_queue(queue, start, start) for queue, start in left.start.items() if queue not in known]


def _queue(queue: MessageQueue, first: int, end: int) -> ArchivedQueue:
    return ArchivedQueue(topic=queue.topic, broker=queue.broker_name, queue_id=queue.queue_id, first=first, end=end)


def _count(written: Mapping[MessageQueue, Written]) -> int:
    return sum(each.messages for each in written.values())


def in_ranges(messages: DataFrame, planned: list[ArchivedQueue]) -> DataFrame:
    """Return the *planned* part of *messages*.

    Uses a join: a condition per queue overflows the stack of Spark's optimizer at some hundreds of queues.
    """
    rows = [(each.topic, each.broker or None, each.queue_id, each.first, each.end) for each in planned]
    ranges = messages.sparkSession.createDataFrame(rows, "t string, b string, q int, low bigint, high bigint")
    wanted = (
        (f.col("topic") == f.col("t"))
        & f.col("brokerName").eqNullSafe(f.col("b"))
        & (f.col("queueId") == f.col("q"))
        & f.col("queueOffset").between(f.col("low"), f.col("high") - 1)
    )
    return messages.join(f.broadcast(ranges), wanted, "left_semi")
