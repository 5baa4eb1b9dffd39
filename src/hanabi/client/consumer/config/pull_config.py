"""Settings of pull and lite pull consumers: frozen values, checked once, with Apache's limits.

Same as Java's DefaultMQPullConsumer and DefaultLitePullConsumer, except the pull batch: 32 instead of the 10 of Java's
lite pull consumer, which costs three times as many requests. `client.config` holds the settings for reaching the
cluster.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec

from hanabi.client.consumer.group.allocate import Allocate, averagely
from hanabi.client.consumer.offsets.start_point import ConsumeFrom
from hanabi.client.consumer.queue_progress import MIB, QueueLimits
from hanabi.client.hooks import ConsumeHook
from hanabi.client.option_types import check_types
from hanabi.errors import ConfigError

_RANGES: Final = {
    "pull_batch": (1, 1_024),
    "poll_batch": (1, 65_535),
    "messages_max": (1, 6_553_500),
    "queue_messages_max": (1, 65_535),
    "queue_bytes_max": (1, 1_024 * MIB),
    "span_max": (1, 65_535),
}

S = TypeVar("S", bound=msgspec.Struct)


class PullConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one pull consumer. With `trace`, pulls are recorded in the default trace topic, or in the one
    named.
    """

    broadcasting: bool = False  # offsets are kept in a local file instead of at the brokers
    pull_timeout_s: float = 10.0  # for a pull that does not wait for messages
    hold_s: float = 20.0  # how long a broker holds a pull without messages
    max_reconsume_times: int = 16  # deliveries of a message that was sent back, before it becomes a dead letter
    hooks: Sequence[ConsumeHook] = ()
    trace: bool | str = False

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("pull_timeout_s", "hold_s"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be more than 0, not {getattr(self, name)!r}")


class LitePullConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one lite pull consumer.

    `consume_from` says where a group starts in a queue for which it has no offset yet: "last" (only new messages),
    "first" (all stored messages) or a point in time. Afterwards the committed offset counts. With `auto_commit`,
    messages returned by `poll` count as consumed at the next `poll`; offsets are saved every 5 s. Messages are fetched
    ahead, as many as the limits allow.
    """

    consume_from: ConsumeFrom = "last"
    broadcasting: bool = False
    auto_commit: bool = True
    poll_timeout_s: float = 5.0
    poll_batch: int = 32  # most messages that one `poll` returns
    pull_batch: int = 32
    hold_s: float = 20.0  # how long a broker holds a pull before it answers that there are no messages
    messages_max: int = 10_000  # held for all queues together
    queue_messages_max: int = 1_000
    queue_bytes_max: int = 100 * MIB
    span_max: int = 2_000
    allocate: Allocate = averagely
    unit_mode: bool = False
    hooks: Sequence[ConsumeHook] = ()
    trace: bool | str = False

    def __post_init__(self) -> None:
        check_types(self)
        if self.consume_from not in ("last", "first") and not isinstance(self.consume_from, datetime):
            raise ConfigError(f'consume_from is "last", "first" or a datetime, not {self.consume_from!r}')
        for name, (smallest, largest) in _RANGES.items():
            if not smallest <= getattr(self, name) <= largest:
                raise ConfigError(f"{name} must be between {smallest} and {largest}, not {getattr(self, name)!r}")
        if self.poll_timeout_s < 0:
            raise ConfigError(f"poll_timeout_s must not be negative, but is {self.poll_timeout_s!r}")
        if not self.hold_s > 0:
            raise ConfigError(f"hold_s must be more than 0, not {self.hold_s!r}")

    @property
    def limits(self) -> QueueLimits:
        """Return the limits for the messages held of one queue."""
        return QueueLimits(messages=self.queue_messages_max, body_bytes=self.queue_bytes_max, span=self.span_max)


def split_options(settings: S, options: Mapping[str, Any]) -> tuple[S, dict[str, Any]]:
    """Return *settings* updated with their fields from *options*, and the remaining options, the client's."""
    known = settings.__struct_fields__
    own = {name: value for name, value in options.items() if name in known}
    others = {name: value for name, value in options.items() if name not in known}
    return msgspec.structs.replace(settings, **own), others
