"""Results of measurements: frozen values. Their JSON is that of `hanabi bench ... --json`, so names stay.

MB are millions of bytes, and bytes are those of bodies: what a program gave, not what travelled or was stored.
"""

from enum import StrEnum

import msgspec

from hanabi.bench.histogram import Histogram

MEGABYTE = 1_000_000


class Ended(StrEnum):
    """Reasons for the end of a measurement."""

    TIME = "time"
    COUNT = "count"
    LIMIT = "limit"  # of bytes that it may write
    INTERRUPTED = "interrupted"


class Measured(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all results."""


class Times(Measured, frozen=True, kw_only=True):
    """Times in milliseconds; percentiles are at most 0.8 % too large, mean and maximum are exact."""

    mean_ms: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float


class Flow(Measured, frozen=True, kw_only=True):
    """Number and rate of messages."""

    messages: int
    megabytes: float
    seconds: float
    messages_per_second: float
    megabytes_per_second: float


class Failure(Measured, frozen=True, kw_only=True):
    """Messages that failed for one reason, and what the first of them said."""

    reason: str
    messages: int
    example: str


class Produced(Measured, frozen=True, kw_only=True):
    """`hanabi bench produce`. `statuses` are messages by RocketMQ's send status; `client_cpu` is this process's, of one
    core: near 1 it is what is measured, and not the cluster."""

    topic: str
    topic_created: bool
    ended: Ended
    sent: Flow
    latency: Times | None
    statuses: dict[str, int]
    failed: int
    failures: list[Failure]
    client_cpu: float


class Consumed(Measured, frozen=True, kw_only=True):
    """`hanabi bench consume`. Seconds are those until the last message came."""

    topic: str
    group: str
    group_removed: bool
    ended: Ended
    received: Flow
    age: Times | None
    client_cpu: float


class EndToEnd(Measured, frozen=True, kw_only=True):
    """`hanabi bench latency`: from send to listener. `lost` was acknowledged and did not arrive in time; `duplicated`
    arrived more than once."""

    topic: str
    topic_created: bool
    group: str
    group_removed: bool
    ended: Ended
    rate: float
    sent: Flow
    received: int
    lost: int
    duplicated: int
    latency: Times | None
    send_latency: Times | None
    failed: int
    failures: list[Failure]
    client_cpu: float


class StoreMeasured(Measured, frozen=True, kw_only=True):
    """`hanabi bench store`: appends, reads of what was appended, and appends that each wait for the disk (fsync)."""

    directory: str
    ended: Ended
    append: Flow
    append_latency: Times | None
    read: Flow
    sync: Flow
    sync_latency: Times | None


class Second(Measured, frozen=True, kw_only=True):
    """Progress since the last line, while a measurement runs."""

    what: str
    at_seconds: float
    messages_per_second: float
    megabytes_per_second: float
    failed: int
    p99_ms: float


def times_of(histogram: Histogram) -> Times | None:
    """Return the percentiles; None if nothing was measured."""
    if not histogram.count:
        return None
    return Times(
        mean_ms=histogram.sum_us / histogram.count / 1000,
        p50_ms=histogram.percentile(50) / 1000,
        p90_ms=histogram.percentile(90) / 1000,
        p99_ms=histogram.percentile(99) / 1000,
        p999_ms=histogram.percentile(99.9) / 1000,
        max_ms=histogram.max_us / 1000,
    )


def flow_of(messages: int, body_bytes: int, seconds: float) -> Flow:
    """Return the rate; 0 if no time has passed."""
    per_second = 1 / seconds if seconds > 0 else 0.0
    return Flow(
        messages=messages,
        megabytes=body_bytes / MEGABYTE,
        seconds=seconds,
        messages_per_second=messages * per_second,
        megabytes_per_second=body_bytes / MEGABYTE * per_second,
    )
