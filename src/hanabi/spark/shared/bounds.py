"""Start and end of reading: an end of the queue, offsets, or a timestamp, parsed from options. Pure.

As with Kafka's connector, a timestamp for all queues takes precedence over timestamps by queue, and these over offsets.
"""

from dataclasses import dataclass, field
from typing import Literal

from hanabi.errors import ConfigError
from hanabi.message import MessageQueue
from hanabi.spark.shared.offsets import EARLIEST, LATEST, Offsets, from_json
from hanabi.spark.shared.option_values import OptionValues

End = Literal["earliest", "latest"]


@dataclass(frozen=True)
class Bound:
    """Start or end of reading for each queue: a timestamp if there is one, else an offset, else an end of the queue.

    `option` is its name, for errors. `late` is the strategy for a timestamp after the last message.
    """

    option: str
    otherwise: End
    offsets: Offsets = field(default_factory=dict)
    times_ms: Offsets = field(default_factory=dict)
    time_ms: int | None = None
    late: Literal["error", "latest"] = "latest"

    def time_of(self, queue: MessageQueue) -> int | None:
        return self.time_ms if self.time_ms is not None else self.times_ms.get(queue)

    def resolve(self, queue: MessageQueue, first: int, end: int) -> int:
        """Return the offset for a queue that holds the messages [*first*, *end*). Ignores timestamps."""
        given = self.offsets.get(queue)
        if given is None:
            given = EARLIEST if self.otherwise == "earliest" else LATEST
        return first if given == EARLIEST else end if given == LATEST else given

    @property
    def named(self) -> set[MessageQueue]:
        """The queues that the bound names."""
        return {*self.offsets, *self.times_ms}


def starting_bound(values: OptionValues, default: End) -> Bound:
    """Return the start of reading that the options define."""
    name, otherwise, offsets = _offsets(values, "startingOffsets", default)
    late = values.choice("startingOffsetsByTimestampStrategy", "error", "latest")
    times = values.json_object("startingOffsetsByTimestamp")
    time_ms = values.time_ms("startingTimestamp")
    return Bound(
        option="startingTimestamp" if time_ms is not None else "startingOffsetsByTimestamp" if times else name,
        otherwise=otherwise,
        offsets={} if times else offsets,
        times_ms=from_json(times, "option startingOffsetsByTimestamp") if times else {},
        time_ms=time_ms,
        late="error" if late == "error" else "latest",
    )


def ending_bound(values: OptionValues) -> Bound:
    """Return the end of reading that the options define. The end is exclusive."""
    name, otherwise, offsets = _offsets(values, "endingOffsets", "latest")
    if otherwise == "earliest" or EARLIEST in offsets.values():
        raise ConfigError("option endingOffsets must not be earliest: nothing would be read")
    times = values.json_object("endingOffsetsByTimestamp")
    time_ms = values.time_ms("endingTimestamp")
    return Bound(
        option="endingTimestamp" if time_ms is not None else "endingOffsetsByTimestamp" if times else name,
        otherwise=otherwise,
        offsets={} if times else offsets,
        times_ms=from_json(times, "option endingOffsetsByTimestamp") if times else {},
        time_ms=time_ms,
    )


def _offsets(values: OptionValues, name: str, default: End) -> tuple[str, End, Offsets]:
    given = values.text(name)
    if given is None:
        return name, default, {}
    if given.lower() == "earliest":
        return name, "earliest", {}
    if given.lower() == "latest":
        return name, "latest", {}
    if not given.lstrip().startswith("{"):
        raise ConfigError(f"option {name}={given!r}: must be earliest, latest, or JSON by topic, broker and queue")
    return name, default, from_json(values.json_object(name), f"option {name}", least=EARLIEST)
