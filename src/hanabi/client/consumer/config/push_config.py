"""Settings of push consumers: one frozen value, checked once, with Apache's defaults and limits.

Agrees with Java's DefaultMQPushConsumer and DefaultMQPushConsumerImpl.checkConfig. `client.config` holds the settings
for reaching the cluster.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from hanabi.client.consumer.group.allocate import Allocate, averagely
from hanabi.client.consumer.offsets.start_point import ConsumeFrom
from hanabi.client.consumer.queue_progress import MIB, QueueLimits
from hanabi.client.hooks import ConsumeHook
from hanabi.client.option_types import check_types
from hanabi.errors import ConfigError

RECONSUME_TIMES: Final = 16  # default of a concurrent consumer

_RANGES: Final = {
    "concurrency": (1, 1_000),
    "consume_batch": (1, 1_024),
    "pull_batch": (1, 1_024),
    "queue_messages_max": (1, 65_535),
    "queue_bytes_max": (1, 1_024 * MIB),
    "span_max": (1, 65_535),
    "topic_messages_max": (1, 6_553_500),
    "topic_bytes_max": (1, 102_400 * MIB),
    "pull_interval_s": (0, 65.535),
    "pop_invisible_s": (5, 300),
}
_POSITIVE: Final = ("suspend_s", "consume_timeout_s", "shutdown_timeout_s")


class PushConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one push consumer.

    `consume_from` says where a group starts in a queue for which it has no offset yet: "last" (only new messages),
    "first" (all stored messages) or a point in time. Afterwards the committed offset counts. Up to `concurrency`
    listener calls run at once: threads for a `def` listener, tasks for an `async def`. A failed message is retried
    `max_reconsume_times` times (16; for an ordered listener: without limit).
    """

    consume_from: ConsumeFrom = "last"
    broadcasting: bool = False  # every member of the group gets every message, and keeps its own offsets
    broadcast_offsets: str = "file"  # "broker": under the member's `instance`, which survives a changed address
    concurrency: int = 20
    consume_batch: int = 1  # most messages per listener call
    pull_batch: int = 32
    pull_interval_s: float = 0.0
    queue_messages_max: int = 1_000
    queue_bytes_max: int = 100 * MIB
    span_max: int = 2_000
    topic_messages_max: int | None = None  # shared by the queues of this member
    topic_bytes_max: int | None = None
    max_reconsume_times: int | None = None
    consume_timeout_s: float = 15 * 60.0
    suspend_s: float = 1.0  # pause before an ordered listener retries a failed batch
    shutdown_timeout_s: float = 10.0
    allocate: Allocate = averagely
    rebalance: str = "client"  # "broker": brokers assign queues, or let the group pop (5.x; Java: clientRebalance)
    pop_invisible_s: float = 60.0  # how long a popped message is hidden from the other members
    hooks: Sequence[ConsumeHook] = ()
    trace: bool | str = False  # record every message in the default trace topic, or in the one named
    unit_mode: bool = False

    def __post_init__(self) -> None:
        check_types(self)
        if self.consume_from not in ("last", "first") and not isinstance(self.consume_from, datetime):
            raise ConfigError(f'consume_from is "last", "first" or a datetime, not {self.consume_from!r}')
        if self.broadcast_offsets not in ("file", "broker"):
            raise ConfigError(f'broadcast_offsets is "file" or "broker", not {self.broadcast_offsets!r}')
        if self.rebalance not in ("client", "broker"):
            raise ConfigError(f'rebalance is "client" or "broker", not {self.rebalance!r}')
        for name, (smallest, largest) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not smallest <= value <= largest:
                raise ConfigError(f"{name} must be between {smallest} and {largest}, not {value!r}")
        for name in _POSITIVE:
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be more than 0, not {getattr(self, name)!r}")
        if self.max_reconsume_times is not None and self.max_reconsume_times < 0:
            raise ConfigError(f"max_reconsume_times must not be negative, but is {self.max_reconsume_times}")

    def limits(self, queues: int, *, ordered: bool) -> QueueLimits:
        """Return the limits for each of *queues*: a total limit is divided among them."""
        messages, body_bytes = self.queue_messages_max, self.queue_bytes_max
        if self.topic_messages_max is not None:
            messages = max(1, self.topic_messages_max // max(1, queues))
        if self.topic_bytes_max is not None:
            body_bytes = max(1, self.topic_bytes_max // max(1, queues))
        return QueueLimits(messages=messages, body_bytes=body_bytes, span=None if ordered else self.span_max)


def push_config(settings: PushConfig | None, options: Mapping[str, Any]) -> tuple[PushConfig, dict[str, Any]]:
    """Return *settings* updated with their fields from *options*, and the remaining options, the client's."""
    known = PushConfig.__struct_fields__
    own = {name: value for name, value in options.items() if name in known}
    others = {name: value for name, value in options.items() if name not in known}
    return msgspec.structs.replace(settings or PushConfig(), **own), others
