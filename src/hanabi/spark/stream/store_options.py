"""Options of `spark.readStream.format("rocketmq-store")`."""

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
BROKER: Final = "store"  # broker name in offsets: the files do not contain the real one
KNOWN: Final = (
    *(name for name in BATCH if name not in _OF_BATCHES),
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelayMs",
    "offsetPollMs",
)
ALL: Final = tuple(dict.fromkeys((*BATCH, *KNOWN)))  # Spark chooses batch or stream only later


@dataclass(frozen=True)
class StoreStreamOptions:
    """Selection of messages to follow.

    A trigger takes between min and max messages; after the maximum delay it takes fewer than min.
    """

    read: StoreOptions
    starting: Bound
    from_ms: int | None  # begin with messages stored at this time instead
    fail_on_data_loss: bool
    offsets_max: int | None
    offsets_min: int | None
    delay_max_s: float
    poll_s: float  # cache time of the queues' ends


def parse_store_stream_options(given: Mapping[str, str]) -> StoreStreamOptions:
    """Parse the options of a stream. Raises ConfigError, or StoreError if the directory is not a store."""
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
