"""Contract of a pipeline: a name, its options as a Struct, and a function from a Spark session to an outcome.

One file is one pipeline:

    class ArchiveOptions(Connection, frozen=True, kw_only=True):
        topics: Annotated[str, msgspec.Meta(description="topics, separated by commas")] = ""

        def __post_init__(self) -> None: ...   # raises ConfigError; runs before Spark is started

    def run(spark: SparkSession, options: ArchiveOptions, progress: Progress) -> Outcome: ...

    PIPELINE = Pipeline(name="archive", summary="Topics to Parquet.", options=ArchiveOptions, run=run)

and has a line in `catalogue.py`. This module must not import pyspark: the command line lists pipelines without it.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Generic, Protocol, TypeVar

import msgspec

from hanabi.errors import MQError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Cell = str | int | float | bool | None
Count = Annotated[int, msgspec.Meta(ge=1)]  # msgspec's limits apply to `int`, not to `int | None`
Rate = Annotated[float, msgspec.Meta(gt=0)]  # per second
OptionsT = TypeVar("OptionsT", bound=msgspec.Struct)


class SparkFailed(MQError):
    """A failure of Spark itself; its log may have details."""


class Progress(Protocol):
    """Receiver of a run's progress. Both methods may be called from any thread."""

    def step(self, text: str) -> None:
        """Begin a new step, named in a few words; it ends the previous one."""

    def advance(self, done: int, total: int | None = None) -> None:
        """Report *done* of *total* of the current step; *total* is None if unknown."""


class Table(msgspec.Struct, frozen=True):
    """Rows for a terminal or, as JSON, for programs. Times are ISO 8601 texts in UTC."""

    title: str
    columns: list[str]
    rows: list[list[Cell]]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a run.

    *facts* are counts, paths and the like, under names such as `messages_archived`. *complaint* is a sentence for a run
    that completed with a bad result (an audit that finds differences): the result is shown, and the exit code is 1.
    """

    tables: list[Table] = []
    facts: dict[str, Cell] = {}
    complaint: str | None = None


class Pipeline(msgspec.Struct, Generic[OptionsT], frozen=True, kw_only=True):
    """One pipeline. *spark_conf* holds settings of its session, such as {"spark.sql.shuffle.partitions": "8"}.

    A user's --conf takes precedence.
    """

    name: str
    summary: str
    options: type[OptionsT]
    run: "Callable[[SparkSession, OptionsT, Progress], Outcome]"
    spark_conf: Mapping[str, str] = {}
