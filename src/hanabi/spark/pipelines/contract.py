"""What a pipeline is: a name, its options as a Struct, and a function from a Spark session to an outcome.

One file is one pipeline:

    class ArchiveOptions(Connection, frozen=True, kw_only=True):
        topics: Annotated[str, msgspec.Meta(description="topics, commas between them")] = ""

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
Count = Annotated[int, msgspec.Meta(ge=1)]  # limits are of a number, and not of `int | None`
Rate = Annotated[float, msgspec.Meta(gt=0)]  # so many a second
OptionsT = TypeVar("OptionsT", bound=msgspec.Struct)


class SparkFailed(MQError):
    """Spark did, and the reason is not one of ours: its log may tell more."""


class Progress(Protocol):
    """Who is told how a run comes along. Both may be called from any thread."""

    def step(self, text: str) -> None:
        """What is done now, in a few words. Whatever was advanced before is over."""

    def advance(self, done: int, total: int | None = None) -> None:
        """*done* of *total* of the present step; None where nobody knows how much there is."""


class Table(msgspec.Struct, frozen=True):
    """Rows for people, and for programs in JSON. Times are texts in ISO 8601, UTC."""

    title: str
    columns: list[str]
    rows: list[list[Cell]]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a run found or did.

    *facts* are counts, paths and the like, under names such as `messages_archived`. With *complaint*, a sentence, the
    run came to its end but the answer is bad (an audit that finds differences): shown all the same, with exit code 1.
    """

    tables: list[Table] = []
    facts: dict[str, Cell] = {}
    complaint: str | None = None


class Pipeline(msgspec.Struct, Generic[OptionsT], frozen=True, kw_only=True):
    """*spark_conf* is what its session needs, such as {"spark.sql.shuffle.partitions": "8"}; users' --conf wins."""

    name: str
    summary: str
    options: type[OptionsT]
    run: "Callable[[SparkSession, OptionsT, Progress], Outcome]"
    spark_conf: Mapping[str, str] = {}
