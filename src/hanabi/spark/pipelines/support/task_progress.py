"""Progress of a running query, in completed Spark tasks."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from hanabi.spark.pipelines.contract import Progress

_EVERY_S: Final = 0.5


@contextmanager
def task_progress(spark: SparkSession, progress: Progress) -> Iterator[None]:
    """Advance *progress* by the tasks of all running stages while the block runs."""
    tracker, over = spark.sparkContext.statusTracker(), threading.Event()

    def watch() -> None:
        while not over.wait(_EVERY_S):
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
            running = [stage for stage in stages if stage is not None]
            if running:
                progress.advance(
                    sum(each.numCompletedTasks for each in running), sum(each.numTasks for each in running)
                )

    watcher = threading.Thread(target=watch, name="tasks of Spark", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
