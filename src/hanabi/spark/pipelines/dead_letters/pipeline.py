"""Pipeline `dead-letters`: report on the dead letters of groups by topic, tag, number of attempts and age.

It can archive them and send them again, by means of the pipelines `archive` and `replay`.
"""

import shlex
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from pyspark.sql import SparkSession

from hanabi.errors import ConfigError
from hanabi.spark.pipelines.archive import pipeline as archive
from hanabi.spark.pipelines.connection import Connection
from hanabi.spark.pipelines.contract import Cell, Outcome, Pipeline, Progress, Rate
from hanabi.spark.pipelines.dead_letters.tables import COLUMNS, count_letters, sample_letters, summarize
from hanabi.spark.pipelines.origin import Origin
from hanabi.spark.pipelines.replay import pipeline as replay
from hanabi.wire.system_names import DEAD_LETTER_PREFIX


class DeadLettersOptions(Connection, frozen=True, kw_only=True):
    """Options of `dead-letters`: the groups, and the treatment of their dead letters."""

    groups: Annotated[list[str] | None, msgspec.Meta(description="only of these groups")] = None
    store: Annotated[str | None, msgspec.Meta(description="read this broker's files, not a cluster")] = None
    since: Annotated[
        str | None, msgspec.Meta(description="dead-lettered at this time or later: milliseconds, or ISO 8601")
    ] = None
    until: Annotated[str | None, msgspec.Meta(description="dead-lettered before this time")] = None
    samples: Annotated[int, msgspec.Meta(ge=0, description="bodies to show per group and topic")] = 3
    top: Annotated[int, msgspec.Meta(ge=1, description="rows of a table, those with the most letters first")] = 50
    export: Annotated[
        str | None, msgspec.Meta(description="archive all of them in this directory, for replay and other pipelines")
    ] = None
    on_damage: Annotated[
        Literal["fail", "skip"], msgspec.Meta(description="for an unreadable body: fail, or leave its letter out")
    ] = "fail"
    resend: Annotated[bool, msgspec.Meta(description="send them to the topics that they came from")] = False
    rate: Annotated[Rate | None, msgspec.Meta(description="with resend: maximum messages per second")] = None
    dry_run: Annotated[bool, msgspec.Meta(description="with resend: only show what would be sent")] = False

    def __post_init__(self) -> None:
        if self.export is not None and (self.since is not None or self.until is not None):
            raise ConfigError("option export keeps all dead letters of a group: leave since and until out")
        if (self.rate is not None or self.dry_run) and not self.resend:
            raise ConfigError(
                f"option {'rate' if self.rate is not None else 'dry-run'} is for --resend, which is not given"
            )
        _ = self.origin()

    def origin(self) -> Origin:
        """Return the topics of these groups."""
        return Origin(**self._connection(), **self._letters())

    def _connection(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in Connection.__struct_fields__}

    def _letters(self) -> dict[str, Any]:
        which: dict[str, Any] = {name: getattr(self, name) for name in ("store", "since", "until", "on_damage")}
        if self.groups:
            return which | {"topics": [DEAD_LETTER_PREFIX + group for group in self.groups]}
        return which | {"pattern": f"{DEAD_LETTER_PREFIX}.+"}

    def replaying(self, **more: Any) -> replay.ReplayOptions:
        """Return the options for `replay`."""
        return replay.ReplayOptions(**self._connection(), **self._letters(), to_origin=True, **more)

    def archiving(self, to: str) -> archive.ArchiveOptions:
        """Return the options for `archive`."""
        which = {name: value for name, value in self._letters().items() if name not in ("since", "until")}
        return archive.ArchiveOptions(**self._connection(), **which, to=to, fail_on_data_loss=self.on_damage == "fail")


def run(spark: SparkSession, options: DeadLettersOptions, progress: Progress) -> Outcome:
    now = datetime.now(UTC)
    progress.step("reading dead letters")
    letters = options.origin().read_existing(spark, COLUMNS)
    counts = count_letters(letters, now)
    if counts and options.groups:  # a group without dead letters has no dead-letter topic
        have = {each.group for each in counts}
        options = msgspec.structs.replace(options, groups=[group for group in options.groups if group in have])
    tables = summarize(counts, options.top)
    if options.samples and counts:
        tables.append(sample_letters(letters, options.samples))
    facts: dict[str, Cell] = {
        "dead_letters": sum(each.messages for each in counts),
        "groups": len({each.group for each in counts}),
    }
    complaint = None
    if counts:
        facts["to_send_them_again"] = replay_command(options)
    if counts and options.export is not None:
        kept = archive.run(spark, options.archiving(options.export), progress)
        facts |= {"export": kept.facts["archive"], "messages_exported": kept.facts["messages_archived"]}
    if counts and options.resend:
        sent = replay.run(spark, options.replaying(rate=options.rate, dry_run=options.dry_run), progress)
        tables += sent.tables
        facts |= {name: value for name, value in sent.facts.items() if name != "seconds"}
        complaint = sent.complaint
    return Outcome(tables=tables, facts=facts, complaint=complaint)


def replay_command(options: DeadLettersOptions) -> str:
    """Return the command line that sends exactly these letters again."""
    given: dict[str, object] = {
        "namesrv": options.namesrv,
        "access-key": options.access_key,
        "store": options.store,
        "topics": ",".join(DEAD_LETTER_PREFIX + group for group in options.groups or ()) or None,
        "pattern": None if options.groups else f"{DEAD_LETTER_PREFIX}.+",
        "since": options.since,
        "until": options.until,
        "on-damage": None if options.on_damage == "fail" else options.on_damage,
    }
    words = [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]
    return shlex.join(["hanabi", "pipeline", "run", "replay", *words, "--to-origin"])


PIPELINE = Pipeline(
    name="dead-letters",
    summary="Show what groups failed on for good, save it, send it again.",
    options=DeadLettersOptions,
    run=run,
    spark_conf={**archive.PIPELINE.spark_conf, **replay.PIPELINE.spark_conf},
)
