"""Ways to do the same thing in one Spark session: measured in turn, wall and CPU, and what became of the demands."""

import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import median

import psutil
from pyspark.sql import SparkSession

from benches.spark_data import RowSource
from hanabi.spark import register

# Spark then takes less than half as long to log a trigger: docs/spark.md advises it.
QUICK_CHECKPOINTS = (
    "spark.sql.streaming.checkpointFileManagerClass",
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
)
# Both for the whole session, Parquet included. Python workers send their rows over Unix sockets instead of TCP, and the
# JVM collects garbage in the way that is meant for throughput: a tenth more, docs/spark.md advises these as well.
QUICK_SESSION: dict[str, bool | float | int | str | None] = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.driver.defaultJavaOptions": "-XX:+UseParallelGC",
}


@dataclass
class Way:
    """One way, and what its rounds took. `work` returns how many messages it handled."""

    name: str
    work: Callable[[], int]
    rounds_max: int = 1_000
    messages: int = 0
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        return self.messages / median(self.seconds)

    @property
    def cpu_us(self) -> float:
        """Of CPU time, a message."""
        return median(self.cpu_seconds) * 1e6 / self.messages


def alternate(ways: Iterable[Way], rounds: int, apart: frozenset[int], *, warm_up: int = 1) -> list[Way]:
    """Measure *ways* in turn. The CPU time of the processes *apart*, servers, is not counted."""
    measured = list(ways)
    for number in range(-warm_up, rounds):
        for way in measured:
            if number >= way.rounds_max:
                continue
            cpu, began = cpu_seconds(apart), time.perf_counter()
            way.messages = way.work()
            seconds, used = time.perf_counter() - began, cpu_seconds(apart) - cpu
            if number >= 0:
                way.seconds.append(seconds)
                way.cpu_seconds.append(used)
    return measured


def speed_ratio(ours: Way, theirs: Way) -> float:
    """Return messages a second of *ours* to those of *theirs*: the median over pairs of rounds, in which the machine
    was the same."""
    pairs = zip(ours.seconds, theirs.seconds, strict=False)
    return median((ours.messages / mine) / (theirs.messages / other) for mine, other in pairs)


def cells(way: Way, base: Way | None = None) -> list[str]:
    return [
        way.name,
        f"{way.per_second:,.0f}",
        f"{median(way.seconds):.2f}",
        f"{min(way.seconds):.2f}",
        f"{way.cpu_us:.1f}",
        "" if base is None else f"{speed_ratio(way, base):.2f}",
        "" if base is None else f"{base.cpu_us / way.cpu_us:.2f}",
    ]


HEAD = ("way", "messages/s", "seconds", "best", "CPU us/message", "speed to the base", "CPU to the base")


def demand(name: str, got: float, wanted: float, digits: int = 2) -> list[str]:
    met = "yes" if got >= wanted else "NO"
    return [name, f"{got:,.{digits}f}", f"{wanted:,.{digits}f}", met]


def cpu_seconds(apart: frozenset[int] = frozenset()) -> float:
    """Return what all processes below this one have used, those that ended included; not those *apart*, nor theirs."""
    total, todo = 0.0, list(psutil.Process().children())
    while todo:
        process = todo.pop()
        if process.pid in apart:
            continue
        try:
            total += sum(process.cpu_times()[:4])  # its own, and those of its children that ended
            todo += process.children()
        except psutil.NoSuchProcess:
            continue
    own = psutil.Process().cpu_times()
    return total + own.children_user + own.children_system


def session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("benches.spark")
        .config(map=QUICK_SESSION)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    spark.dataSource.register(RowSource)
    return spark
