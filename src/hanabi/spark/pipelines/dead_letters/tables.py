"""Tables of dead letters by group, origin, tag, age and attempts: counted by Spark once, summed here."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from hanabi.spark.pipelines.contract import Cell, Table
from hanabi.spark.pipelines.replay.choice import origin
from hanabi.spark.pipelines.support.text import body_text, moment
from hanabi.wire.system_names import DEAD_LETTER_PREFIX

COLUMNS: Final = (
    "topic string, messageId string, tags string, keys array<string>, body binary, properties map<string,string>,"
    " storeTimestamp timestamp, reconsumeTimes int"
)
AGES: Final = (("under an hour", 3_600), ("under a day", 86_400), ("under a week", 604_800))
OLDEST: Final = "a week or more"
_SHOWN_BYTES: Final = 512
_UNKNOWN: Final = "unknown"


class Letters(NamedTuple):
    """Number of letters that share all these values."""

    group: str
    origin: str
    tags: str | None
    tried: int
    age: str
    messages: int
    bytes: int
    first_ms: int
    last_ms: int


def count_letters(letters: DataFrame, now: datetime) -> list[Letters]:
    """Return the counts of all letters, from one pass over them."""
    age_s = f.lit(now.timestamp()) - f.unix_millis("storeTimestamp") / 1_000
    age = f.lit(OLDEST)
    for name, seconds in reversed(AGES):
        age = f.when(age_s < seconds, f.lit(name)).otherwise(age)
    found = (
        _known(letters)
        .withColumn("age", age)
        .groupBy("group", "origin", "tags", "reconsumeTimes", "age")
        .agg(
            f.count("*"),
            f.sum(f.length("body")),
            f.min(f.unix_millis("storeTimestamp")),
            f.max(f.unix_millis("storeTimestamp")),
        )
        .collect()
    )
    return [Letters(*row) for row in found]


def summarize(counts: Sequence[Letters], top: int) -> list[Table]:
    """Return the tables, each with the most letters first."""
    sizes, first, last = Counter[tuple[Cell, ...]](), dict[tuple[Cell, ...], int](), dict[tuple[Cell, ...], int]()
    for each in counts:
        key = each.group, each.origin
        sizes[key] += each.bytes
        first[key] = min(first.get(key, each.first_ms), each.first_ms)
        last[key] = max(last.get(key, each.last_ms), each.last_ms)
    ages = [name for name, _ in AGES] + [OLDEST]
    return [
        Table(
            "Dead letters by group and the topic that they came from",
            ["group", "origin topic", "messages", "bytes", "first died", "last died"],
            [
                [*key, count, sizes[key], moment(first[key]), moment(last[key])]
                for key, count in _most(counts, lambda each: (each.group, each.origin), top)
            ],
        ),
        _table("By tag", ["group", "tag"], _most(counts, lambda each: (each.group, each.tags), top)),
        _table(
            "By age",
            ["group", "age"],
            sorted(
                _most(counts, lambda each: (each.group, each.age), top),
                key=lambda found: (str(found[0][0]), ages.index(str(found[0][1]))),
            ),
        ),
        _table(
            "By times that they were tried",
            ["group", "times"],
            _most(counts, lambda each: (each.group, each.tried), top),
        ),
    ]


def sample_letters(letters: DataFrame, count: int) -> Table:
    """Return the latest *count* of each group and origin."""
    latest = Window.partitionBy("group", "origin").orderBy(f.desc("storeTimestamp"), "messageId")
    found = (
        _known(letters)
        .withColumn("body", f.substring("body", 1, _SHOWN_BYTES))
        .withColumn("place", f.row_number().over(latest))
        .where(f.col("place") <= count)
        .orderBy("group", "origin", "place")
        .select(
            "group",
            "origin",
            f.unix_millis("storeTimestamp").alias("died"),
            "reconsumeTimes",
            "messageId",
            "tags",
            f.concat_ws(" ", "keys").alias("keys"),
            "body",
        )
        .collect()
    )
    return Table(
        "The latest of them",
        ["group", "origin topic", "died", "times", "message id", "tags", "keys", "body"],
        [[*row[:2], moment(row.died), *row[3:7], body_text(row.body)] for row in found],
    )


def _known(letters: DataFrame) -> DataFrame:
    return letters.withColumn("group", f.substring("topic", len(DEAD_LETTER_PREFIX) + 1, 1_000)).withColumn(
        "origin", f.coalesce(origin(), f.lit(_UNKNOWN))
    )


def _most(
    counts: Sequence[Letters], key: Callable[[Letters], tuple[Cell, ...]], top: int
) -> list[tuple[tuple[Cell, ...], int]]:
    found = Counter[tuple[Cell, ...]]()
    for each in counts:
        found[key(each)] += each.messages
    return sorted(found.items(), key=lambda pair: (-pair[1], tuple(map(str, pair[0]))))[:top]


def _table(title: str, columns: list[str], found: Sequence[tuple[tuple[Cell, ...], int]]) -> Table:
    return Table(title, [*columns, "messages"], [[*key, count] for key, count in found])
