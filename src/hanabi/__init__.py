"""Hanabi: a RocketMQ-compatible message queue in Python, whose data pipelines run on Spark.

    with hanabi.Producer("orders", namesrv="127.0.0.1:9876") as producer:
        producer.send(hanabi.Message("Orders", b"...", tags="created", keys=["42"]))

The classes here block; those of the same name in `hanabi.aio` are for asyncio. Every exception is in `hanabi.errors`.
Names are imported when they are first used, so that a server does not carry the client library with it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hanabi._version import __version__

if TYPE_CHECKING:
    from hanabi import aio as aio
    from hanabi.client.blocking import Producer, TransactionProducer
    from hanabi.client.blocking_lite_pull import LitePullConsumer
    from hanabi.client.blocking_pull import PullConsumer
    from hanabi.client.blocking_push import PushConsumer
    from hanabi.client.config import ClientConfig, Credentials, TlsConfig
    from hanabi.client.consumer.allocate import (
        ByConfig,
        ByMachineRoom,
        ConsistentHash,
        MachineRoomNearby,
        averagely,
        by_circle,
    )
    from hanabi.client.consumer.listener import ConsumeLater
    from hanabi.client.consumer.pull_config import LitePullConfig, PullConfig
    from hanabi.client.consumer.pulling import PullResult, PullStatus
    from hanabi.client.consumer.push_config import PushConfig
    from hanabi.client.consumer.subscription import sql
    from hanabi.client.deduplicate.deduplicate import deduplicate
    from hanabi.client.deduplicate.memory_keys import MemoryKeys
    from hanabi.client.deduplicate.redis_keys import RedisKeys
    from hanabi.client.deduplicate.sqlite_keys import SqliteKeys
    from hanabi.client.otel import OpenTelemetry
    from hanabi.client.producer_config import ProducerConfig
    from hanabi.client.selectors import by_hash, by_random, round_robin
    from hanabi.client.send_result import SendResult, SendStatus, TransactionResult, TransactionState
    from hanabi.errors import ConfigError, InvalidMessage, MQError, SendFailed
    from hanabi.message import Message, MessageQueue, StoredMessage

_WHERE = {
    "Producer": "client.blocking",
    "TransactionProducer": "client.blocking",
    "LitePullConsumer": "client.blocking_lite_pull",
    "PullConsumer": "client.blocking_pull",
    "PushConsumer": "client.blocking_push",
    "ClientConfig": "client.config",
    "Credentials": "client.config",
    "TlsConfig": "client.config",
    "ByConfig": "client.consumer.allocate",
    "ByMachineRoom": "client.consumer.allocate",
    "ConsistentHash": "client.consumer.allocate",
    "MachineRoomNearby": "client.consumer.allocate",
    "averagely": "client.consumer.allocate",
    "by_circle": "client.consumer.allocate",
    "ConsumeLater": "client.consumer.listener",
    "LitePullConfig": "client.consumer.pull_config",
    "PullConfig": "client.consumer.pull_config",
    "PullResult": "client.consumer.pulling",
    "PullStatus": "client.consumer.pulling",
    "PushConfig": "client.consumer.push_config",
    "sql": "client.consumer.subscription",
    "deduplicate": "client.deduplicate.deduplicate",
    "MemoryKeys": "client.deduplicate.memory_keys",
    "RedisKeys": "client.deduplicate.redis_keys",
    "SqliteKeys": "client.deduplicate.sqlite_keys",
    "OpenTelemetry": "client.otel",
    "ProducerConfig": "client.producer_config",
    "by_hash": "client.selectors",
    "by_random": "client.selectors",
    "round_robin": "client.selectors",
    "SendResult": "client.send_result",
    "SendStatus": "client.send_result",
    "TransactionResult": "client.send_result",
    "TransactionState": "client.send_result",
    "ConfigError": "errors",
    "InvalidMessage": "errors",
    "MQError": "errors",
    "SendFailed": "errors",
    "Message": "message",
    "MessageQueue": "message",
    "StoredMessage": "message",
}

__all__ = [
    "ByConfig",
    "ByMachineRoom",
    "ClientConfig",
    "ConfigError",
    "ConsistentHash",
    "ConsumeLater",
    "Credentials",
    "InvalidMessage",
    "LitePullConfig",
    "LitePullConsumer",
    "MQError",
    "MachineRoomNearby",
    "MemoryKeys",
    "Message",
    "MessageQueue",
    "OpenTelemetry",
    "Producer",
    "ProducerConfig",
    "PullConfig",
    "PullConsumer",
    "PullResult",
    "PullStatus",
    "PushConfig",
    "PushConsumer",
    "RedisKeys",
    "SendFailed",
    "SendResult",
    "SendStatus",
    "SqliteKeys",
    "StoredMessage",
    "TlsConfig",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
    "__version__",
    "aio",
    "averagely",
    "by_circle",
    "by_hash",
    "by_random",
    "deduplicate",
    "round_robin",
    "sql",
]


def __getattr__(name: str) -> Any:
    if name == "aio":
        return import_module("hanabi.aio")
    if name not in _WHERE:
        raise AttributeError(f"module 'hanabi' has no attribute {name!r}")
    value = getattr(import_module(f"hanabi.{_WHERE[name]}"), name)
    globals()[name] = value  # the next look finds it at once
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
