"""Catalogue of all pipelines and their modules. A static list, so that listing them needs no Spark."""

from importlib import import_module
from typing import Any, Final

from hanabi.errors import ConfigError
from hanabi.spark.pipelines.contract import Pipeline
from hanabi.spark.shared.suggestions import did_you_mean

PACKAGE: Final = "hanabi.spark.pipelines"
EXTRA: Final = "pip install '.[spark]' in a clone of Hanabi"

SUMMARIES: Final[dict[str, str]] = {
    "archive": "Copy topics to Parquet or Delta, each message exactly once, and say what retention may delete.",
    "replay": "Send messages of an archive, a store or a topic to a topic again, some of them or all.",
    "dead-letters": "Show what groups failed on for good, save it, send it again.",
    "traffic": "Messages, bytes and latencies by topic, tag and minute; sizes, skew of queues, lag of groups.",
    "trace": "Success and latency of sending and consuming from message traces; slow consumers.",
    "orders": "The demo: deduplicate, enrich and add up JSON orders, as a stream.",
    "audit": "Compare a store's commit log, consume queues and index with each other.",
}


def check_name(name: str) -> None:
    """Raise ConfigError if there is no pipeline of that name."""
    if name not in SUMMARIES:
        hint = did_you_mean(name, SUMMARIES) or ": `hanabi pipeline list` shows them all"
        raise ConfigError(f"there is no pipeline {name!r}{hint}")


def find(name: str) -> Pipeline[Any]:
    """Return the pipeline of that name. Raises ConfigError if there is none, or Spark is not installed."""
    check_name(name)
    try:
        module = import_module(f"{PACKAGE}.{name.replace('-', '_')}")
    except ModuleNotFoundError as error:
        missing = (error.name or "hanabi").split(".")[0]
        if missing == "hanabi":
            raise
        raise ConfigError(f"pipelines need {missing}, which is not installed: {EXTRA}") from error
    found: Pipeline[Any] = module.PIPELINE
    return found
