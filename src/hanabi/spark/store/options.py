"""Options of `spark.read.format("rocketmq-store")`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from hanabi.errors import ConfigError, StoreError
from hanabi.spark.shared.option_values import OptionValues
from hanabi.spark.shared.selection import Selection
from hanabi.spark.shared.suggestions import did_you_mean
from hanabi.store.inspection.home import StoreHome

NAME: Final = "rocketmq-store"
LIGHT_QUEUE_PREFIX: Final = "%LMQ%"
_ENDS: Final = ("earliest", "latest")
KNOWN: Final = (
    "path",  # the store: RocketMQ's storePathRootDir; `load(dir)` sets it
    "commitLog",  # storePathCommitLog, if it is outside the store
    "brokerName",  # for the column brokerName: the files do not contain it
    "subscribe",  # topics, separated by commas; all topics if none of these three options is given
    "subscribePattern",  # topics, as a regular expression
    "assign",  # topics and queues: {"Orders": [0, 1]}
    "startingOffsets",  # by topic and queue: {"Orders": {"0": 1200}}; other queues from their oldest message on
    "endingOffsets",  # likewise; exclusive
    "startingTimestamp",  # stored at this time or later
    "endingTimestamp",  # stored before this time
    "tags",  # such as: created || paid
    "scan",  # queues: messages in the consume queues; log: every record of the commit log
    "onDamage",  # fail; skip: leave damaged records out; end: end the task at the first one
    "checkCrc",  # check the CRC of bodies that are read
    "rows",  # messages; damage: a row for each record that onDamage=skip would leave out
    "rawRecord",  # add the column `record`: the bytes as stored
    "maxBytesPerPartition",  # bytes of the log; a task has about 50 ms of overhead
    "minPartitions",
    "maxRowsPerBatch",  # rows that Python passes to the JVM at once
)


@dataclass(frozen=True)
class StoreOptions:
    """Selection of messages of a store, and how to read them."""

    home: StoreHome
    selection: Selection
    broker_name: str | None
    is_log_scan: bool
    on_damage: str
    check_crc: bool
    is_damage_report: bool
    has_raw_record: bool
    partition_bytes: int
    partitions_min: int
    batch_rows: int


def parse_store_options(given: Mapping[str, str]) -> StoreOptions:
    """Parse the options of a batch. Raises ConfigError, or StoreError if the directory is not a store."""
    values = OptionValues(given, KNOWN, NAME)
    for name, nowhere in (("startingOffsets", "latest"), ("endingOffsets", "earliest")):
        if (values.text(name) or "").lower() == nowhere:
            raise ConfigError(f"option {name} must not be {nowhere} in a batch: nothing would be read")
    return store_options(values)


def store_options(values: OptionValues) -> StoreOptions:
    """Return the options that batch and stream share. Options that only a batch has are treated as not given."""
    commit_log = values.text("commitLog")
    selection, is_log_scan = _selection(values), values.choice("scan", "queues", "log") == "log"
    home = _open(values.text("path"), Path(commit_log) if commit_log else None)
    if not is_log_scan:
        _check_names(home, selection)
    return StoreOptions(
        home=home,
        selection=selection,
        broker_name=values.text("brokerName"),
        is_log_scan=is_log_scan,
        on_damage=values.choice("onDamage", "fail", "skip", "end"),
        check_crc=values.truth("checkCrc", default=True),
        is_damage_report=values.choice("rows", "messages", "damage") == "damage",
        has_raw_record=values.truth("rawRecord", default=False),
        partition_bytes=values.number("maxBytesPerPartition", 256 << 20),
        partitions_min=values.number("minPartitions", 1),
        batch_rows=values.number("maxRowsPerBatch", 10_000),
    )


def _open(path: str | None, commit_log: Path | None) -> StoreHome:
    if path is None:
        raise ConfigError(f"{NAME} needs the directory of a store: load(dir)")
    url = urlsplit(path)
    if url.scheme not in ("", "file"):
        raise ConfigError(f"{path}: {NAME} reads local or mounted directories, not {url.scheme}:")
    home = StoreHome.open(Path(unquote(url.path) if url.scheme else path), commit_log)
    if not home.log_files():
        raise StoreError(f"{home.root} is not a store: there is no file of a commit log in {home.commit_log}")
    return home


def _selection(values: OptionValues) -> Selection:
    names = ("subscribe", "subscribePattern", "assign")
    given = [name for name in names if values.text(name) is not None]
    if len(given) > 1:
        raise ConfigError(f"options {' and '.join(given)} exclude each other: give one of them")
    from_ms, to_ms = values.time_ms("startingTimestamp"), values.time_ms("endingTimestamp")
    if from_ms is not None and to_ms is not None and from_ms > to_ms:
        raise ConfigError(f"option startingTimestamp={from_ms} lies behind endingTimestamp={to_ms}")
    pattern = values.text("subscribePattern")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"option subscribePattern={pattern!r} is no regular expression: {error}") from None
    tags = values.words("tags", "||")
    return Selection(
        topics=values.words("subscribe"),
        topic_pattern=pattern,
        queues=_assigned(values),
        tags=None if tags == frozenset({"*"}) else tags,
        from_ms=from_ms,
        to_ms=to_ms,
        from_offsets=_offsets(values, "startingOffsets"),
        to_offsets=_offsets(values, "endingOffsets"),
    )


def _offsets(values: OptionValues, name: str) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    if (values.text(name) or "").lower() in _ENDS:
        return found
    for topic, queues in (values.json_object(name) or {}).items():
        for queue_id, offset in queues.items() if isinstance(queues, dict) else ():
            at = offset[0] if isinstance(offset, list) and offset else offset  # the format of a stream's checkpoint
            if queue_id.isdecimal() and type(at) is int and at >= 0:
                found[topic, int(queue_id)] = at
        if not isinstance(queues, dict) or len(queues) != sum(1 for each, _ in found if each == topic):
            raise ConfigError(
                f'option {name}, topic {topic}: must be offsets by queue, such as {{"Orders": {{"0": 1200}}}}'
            )
    return found


def _assigned(values: OptionValues) -> frozenset[tuple[str, int]] | None:
    told = values.json_object("assign")
    if told is None:
        return None
    queues = frozenset(
        (topic, queue_id)
        for topic, queue_ids in told.items()
        if isinstance(queue_ids, list) and queue_ids
        for queue_id in queue_ids
        if isinstance(queue_id, int)
    )
    if not queues or len(queues) < sum(len(ids) if isinstance(ids, list) and ids else 1 for ids in told.values()):
        raise ConfigError('option assign must name queues by topic, such as {"Orders": [0, 1]}')
    return queues


def _check_names(home: StoreHome, selection: Selection) -> None:
    """Raise ConfigError if a named topic or queue does not exist."""
    asked = {topic for topic, _ in selection.queues or ()} | (selection.topics or frozenset())
    there = {path.name for path in home.queues.iterdir()} if asked and home.queues.is_dir() else set()
    for topic in sorted(asked):
        if topic.startswith(LIGHT_QUEUE_PREFIX):
            raise ConfigError(f"{topic!r} is a light queue, whose messages are those of other topics: ask for these")
        if topic not in there:
            raise ConfigError(f"{home.root} has no topic {topic!r}{did_you_mean(topic, there)}")
    for topic, queue_id in sorted(selection.queues or ()):
        if not (home.queues / topic / str(queue_id)).is_dir():
            raise ConfigError(f"{home.root} has no queue {queue_id} of topic {topic!r}")
