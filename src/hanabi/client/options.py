"""Keyword options of clients, for type checkers: the fields of the settings they belong to.

A test compares them with `ClientConfig`, `ProducerConfig`, `PushConfig`, `PullConfig` and `LitePullConfig`.
"""

from collections.abc import Mapping, Sequence
from typing import TypedDict

from hanabi.client.config import Credentials, TlsConfig
from hanabi.client.consumer.group.allocate import Allocate
from hanabi.client.consumer.offsets.start_point import ConsumeFrom
from hanabi.client.hooks import ConsumeHook

__all__ = ["ClientOptions", "LitePullOptions", "ProducerOptions", "PullOptions", "PushOptions"]


class ClientOptions(TypedDict, total=False):
    """Options of every client: fields of `ClientConfig`. None leaves the default."""

    namesrv: str | Sequence[str] | None
    client_id: str | None
    instance: str | None
    unit: str | None
    namespace: str | None
    access: Credentials | None
    tls: TlsConfig | None
    address_map: Mapping[str, str] | None
    request_timeout_s: float | None
    route_refresh_s: float | None
    heartbeat_s: float | None
    persist_offsets_s: float | None
    rebalance_s: float | None


class ProducerOptions(ClientOptions, total=False):
    """Those of every client, and fields of `ProducerConfig`."""

    send_timeout_s: float
    attempt_timeout_s: float | None
    retries: int
    retry_not_stored: bool
    latency_fault_tolerance: bool
    message_bytes_max: int
    compress_over_bytes: int
    compression: str
    compression_level: int
    batch_bytes_max: int
    default_topic: str
    default_topic_queues: int
    in_flight_max: int
    in_flight_bytes_max: int
    pipeline_depth: int
    trace: bool | str


class PushOptions(ClientOptions, total=False):
    """Those of every client, and fields of `PushConfig`."""

    consume_from: ConsumeFrom
    broadcasting: bool
    broadcast_offsets: str
    concurrency: int
    consume_batch: int
    pull_batch: int
    pull_interval_s: float
    queue_messages_max: int
    queue_bytes_max: int
    span_max: int
    topic_messages_max: int | None
    topic_bytes_max: int | None
    max_reconsume_times: int | None
    consume_timeout_s: float
    suspend_s: float
    shutdown_timeout_s: float
    allocate: Allocate
    rebalance: str
    pop_invisible_s: float
    hooks: Sequence[ConsumeHook]
    trace: bool | str
    unit_mode: bool


class PullOptions(ClientOptions, total=False):
    """Those of every client, and fields of `PullConfig`."""

    broadcasting: bool
    pull_timeout_s: float
    hold_s: float
    max_reconsume_times: int
    hooks: Sequence[ConsumeHook]
    trace: bool | str


class SimpleOptions(ClientOptions, total=False):
    """Those of every client, and fields of `SimpleConfig`."""

    batch: int
    wait_s: float
    invisible_s: float
    start_from: str
    ordered: bool


class LitePullOptions(ClientOptions, total=False):
    """Those of every client, and fields of `LitePullConfig`."""

    consume_from: ConsumeFrom
    broadcasting: bool
    auto_commit: bool
    poll_timeout_s: float
    poll_batch: int
    pull_batch: int
    hold_s: float
    messages_max: int
    queue_messages_max: int
    queue_bytes_max: int
    span_max: int
    allocate: Allocate
    unit_mode: bool
    hooks: Sequence[ConsumeHook]
    trace: bool | str
