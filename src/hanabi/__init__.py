"""Hanabi: a RocketMQ-compatible message queue in Python, with data pipelines on Spark.

    with hanabi.Producer("orders", namesrv="127.0.0.1:9876") as producer:
        producer.send(hanabi.Message("Orders", b"...", tags="created", keys=["42"]))

The classes here block; those of the same name in `hanabi.aio` are for asyncio. Every exception is in `hanabi.errors`.
Names are imported on first use, so that a server does not load the client library.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hanabi._version import __version__

if TYPE_CHECKING:
    from hanabi import aio as aio
    from hanabi.client.blocking.lite_pull import LitePullConsumer
    from hanabi.client.blocking.producer import Producer, TransactionProducer
    from hanabi.client.blocking.pull import PullConsumer
    from hanabi.client.blocking.push import PushConsumer
    from hanabi.client.blocking.simple import SimpleConsumer
    from hanabi.client.config import ClientConfig, Credentials, TlsConfig
    from hanabi.client.consumer.config.pull_config import LitePullConfig, PullConfig
    from hanabi.client.consumer.config.push_config import PushConfig
    from hanabi.client.consumer.config.simple_config import SimpleConfig
    from hanabi.client.consumer.group.allocate import (
        ByConfig,
        ByMachineRoom,
        ConsistentHash,
        MachineRoomNearby,
        averagely,
        by_circle,
    )
    from hanabi.client.consumer.listening.listener import ConsumeLater, DeadLetters
    from hanabi.client.consumer.pull_request import PullResult, PullStatus
    from hanabi.client.consumer.subscription import rule, sql
    from hanabi.client.deduplicate.deduplicate import deduplicate
    from hanabi.client.deduplicate.memory_keys import MemoryKeys
    from hanabi.client.deduplicate.redis_keys import RedisKeys
    from hanabi.client.deduplicate.sqlite_keys import SqliteKeys
    from hanabi.client.observe.otel import OpenTelemetry
    from hanabi.client.producer.config import ProducerConfig
    from hanabi.client.producer.routing.selectors import by_hash, by_random, round_robin
    from hanabi.client.send_result import SendResult, SendStatus, TransactionResult, TransactionState
    from hanabi.errors import ConfigError, InvalidMessage, MQError, SendFailed
    from hanabi.message import Message, MessageQueue, StoredMessage

_WHERE = {
    "Producer": "client.blocking.producer",
    "TransactionProducer": "client.blocking.producer",
    "LitePullConsumer": "client.blocking.lite_pull",
    "PullConsumer": "client.blocking.pull",
    "PushConsumer": "client.blocking.push",
    "SimpleConsumer": "client.blocking.simple",
    "SimpleConfig": "client.consumer.config.simple_config",
    "ClientConfig": "client.config",
    "Credentials": "client.config",
    "TlsConfig": "client.config",
    "ByConfig": "client.consumer.group.allocate",
    "ByMachineRoom": "client.consumer.group.allocate",
    "ConsistentHash": "client.consumer.group.allocate",
    "MachineRoomNearby": "client.consumer.group.allocate",
    "averagely": "client.consumer.group.allocate",
    "by_circle": "client.consumer.group.allocate",
    "ConsumeLater": "client.consumer.listening.listener",
    "DeadLetters": "client.consumer.listening.listener",
    "LitePullConfig": "client.consumer.config.pull_config",
    "PullConfig": "client.consumer.config.pull_config",
    "PullResult": "client.consumer.pull_request",
    "PullStatus": "client.consumer.pull_request",
    "PushConfig": "client.consumer.config.push_config",
    "rule": "client.consumer.subscription",
    "sql": "client.consumer.subscription",
    "deduplicate": "client.deduplicate.deduplicate",
    "MemoryKeys": "client.deduplicate.memory_keys",
    "RedisKeys": "client.deduplicate.redis_keys",
    "SqliteKeys": "client.deduplicate.sqlite_keys",
    "OpenTelemetry": "client.observe.otel",
    "ProducerConfig": "client.producer.config",
    "by_hash": "client.producer.routing.selectors",
    "by_random": "client.producer.routing.selectors",
    "round_robin": "client.producer.routing.selectors",
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
    "DeadLetters",
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
    "SimpleConfig",
    "SimpleConsumer",
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
    "rule",
    "sql",
]


def __getattr__(name: str) -> Any:
    if name == "aio":
        return import_module("hanabi.aio")
    if name not in _WHERE:
        raise AttributeError(f"module 'hanabi' has no attribute {name!r}")
    value = getattr(import_module(f"hanabi.{_WHERE[name]}"), name)
    globals()[name] = value  # cached for the next access
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
