"""The options of `spark.readStream.format("rocketmq-store")`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from hanabi.errors import ConfigError
from hanabi.message import MessageQueue
from hanabi.spark.shared.bounds import Bound
from hanabi.spark.shared.option_values import OptionValues
from hanabi.spark.store.options import KNOWN as BATCH
from hanabi.spark.store.options import NAME, StoreOptions, store_options

_OF_BATCHES: Final = ("endingTimestamp", "endingOffsets", "scan", "rows")
BROKER: Final = "store"  # what stands in offsets where others name a broker: files do not know theirs
KNOWN: Final = (
    *(name for name in BATCH if name not in _OF_BATCHES),
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelayMs",
    "offsetPollMs",
)
ALL: Final = tuple(dict.fromkeys((*BATCH, *KNOWN)))  # Spark says only later which of the two it is


@dataclass(frozen=True)
class StoreStreamOptions:
    """What to follow. A trigger takes between min and max messages, but what is there when the delay is over."""

    read: StoreOptions
    starting: Bound
    from_ms: int | None  # begin with what was stored then, instead
    fail_on_data_loss: bool
    offsets_max: int | None
    offsets_min: int | None
    delay_max_s: float
    poll_s: float  # so long the ends of queues are believed


def parse_store_stream_options(given: Mapping[str, str]) -> StoreStreamOptions:
    """Raises ConfigError, or StoreError where the directory is none of a store."""
    values = OptionValues(given, KNOWN, f"a stream of {NAME}")
    read = store_options(values)
    least, most = _maybe(values, "minOffsetsPerTrigger"), _maybe(values, "maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise ConfigError(f"option minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}")
    return StoreStreamOptions(
        read=replace(read, selection=replace(read.selection, from_ms=None, from_offsets={})),
        starting=Bound(
            "startingOffsets",
            "earliest" if (values.text("startingOffsets") or "").lower() == "earliest" else "latest",
            {
                MessageQueue(topic, BROKER, queue_id): at
                for (topic, queue_id), at in read.selection.from_offsets.items()
            },
        ),
        from_ms=read.selection.from_ms,
        fail_on_data_loss=values.truth("failOnDataLoss", default=True),
        offsets_max=most,
        offsets_min=least,
        delay_max_s=values.number("maxTriggerDelayMs", 15 * 60_000) / 1_000,
        poll_s=values.number("offsetPollMs", 100, least=0) / 1_000,
    )


def _maybe(values: OptionValues, name: str) -> int | None:
    return None if values.text(name) is None else values.number(name, 1)
