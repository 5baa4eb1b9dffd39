"""Runs pipelines in the session of the tests, as the command line does in one of its own."""

from typing import Any

from pyspark.sql import SparkSession

from hanabi.spark.pipelines.catalogue import find
from hanabi.spark.pipelines.contract import Outcome
from hanabi.spark.pipelines.options import build


class Steps:
    """Remembers how a run came along."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.advances: list[tuple[int, int | None]] = []

    def step(self, text: str) -> None:
        self.steps.append(text)

    def advance(self, done: int, total: int | None = None) -> None:
        self.advances.append((done, total))


def run_pipeline(spark: SparkSession, name: str, progress: Steps | None = None, **options: Any) -> Outcome:
    """Return the outcome of the pipeline *name*, with options under the names of their fields."""
    pipeline = find(name)
    for key, value in pipeline.spark_conf.items():
        if spark.conf.isModifiable(key):
            spark.conf.set(key, value)
    outcome: Outcome = pipeline.run(spark, build(pipeline.options, options, name), progress or Steps())
    return outcome
