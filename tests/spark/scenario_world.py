"""A broker for the standard scenarios: topics are made again, and a backup of its store is put back."""

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from tests.serving import QUICK, Serving, serving
from tests.spark.broker_world import make_topic, put_raw, remake_topic, send_poison
from tests.spark.pipelines.written import wait_for_queues


class World:
    """The servers, a session, and a directory for what is written. Knows how many messages each topic should have."""

    def __init__(self, home: Path, spark: SparkSession | None) -> None:
        self.home, self.out, self._spark = home, home / "out", spark
        self.stored: Counter[str] = Counter()
        self._saved: Counter[str] = Counter()
        self._running = ExitStack()
        self.serving = self._start()
        self.out.mkdir()

    @property
    def spark(self) -> SparkSession:
        assert self._spark is not None, "this subject needs a session"
        return self._spark

    @property
    def namesrv(self) -> str:
        return self.serving.namesrv

    @property
    def broker(self) -> str:
        return self.serving.broker

    @property
    def store(self) -> Path:
        return next(path.parent for path in (self.home / "data").rglob("commitlog"))

    def make(self, topic: str, queues: int) -> None:
        make_topic(self, topic, queues)

    def make_again(self, topic: str, queues: int) -> None:
        remake_topic(self, topic, queues)
        self.stored[topic] = 0

    def put(self, topic: str, bodies: Sequence[bytes], queues: int) -> None:
        """Send *bodies*, in turn to all queues."""
        put_raw(self, topic, bodies, queues)
        self.stored[topic] += len(bodies)

    def put_poison(self, topic: str) -> None:
        send_poison(self, topic)
        self.stored[topic] += 1

    def written(self, topic: str) -> Path:
        """Return the store, when its files have all messages of *topic*."""
        wait_for_queues(self.store, topic, self.stored[topic])
        return self.store

    def save(self) -> None:
        """Keep a copy of all files, as a backup does."""
        self._running.close()
        shutil.copytree(self.home / "data", self.home / "saved")
        self._saved = self.stored.copy()
        self.serving = self._start()

    def put_back(self) -> None:
        """Give the broker the files of the backup, and no more: its queues end where they ended then."""
        self._running.close()
        shutil.rmtree(self.home / "data")
        shutil.copytree(self.home / "saved", self.home / "data")
        self.stored = self._saved.copy()
        self.serving = self._start()

    def close(self) -> None:
        self._running.close()

    def _start(self) -> Serving:
        return self._running.enter_context(serving(self.home, QUICK))


@contextmanager
def scenario_world(home: Path, spark: SparkSession | None = None) -> Iterator[World]:
    world = World(home, spark)
    try:
        yield world
    finally:
        world.close()
