"""Client for asyncio: the same classes as in `hanabi`, with coroutine methods.

    async with hanabi.aio.Producer("orders", namesrv="127.0.0.1:9876") as producer:
        await producer.send(hanabi.Message("Orders", b"..."))

A class is imported on first use, as in `hanabi`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hanabi.client.consumer.pull.consumer import PullConsumer
    from hanabi.client.consumer.pull.lite_pull import LitePullConsumer
    from hanabi.client.consumer.push.consumer import PushConsumer
    from hanabi.client.consumer.simple.consumer import SimpleConsumer
    from hanabi.client.producer.producer import Producer
    from hanabi.client.producer.transaction_producer import TransactionProducer

_WHERE = {
    "LitePullConsumer": "client.consumer.pull.lite_pull",
    "Producer": "client.producer.producer",
    "PullConsumer": "client.consumer.pull.consumer",
    "PushConsumer": "client.consumer.push.consumer",
    "SimpleConsumer": "client.consumer.simple.consumer",
    "TransactionProducer": "client.producer.transaction_producer",
}

__all__ = ["LitePullConsumer", "Producer", "PullConsumer", "PushConsumer", "SimpleConsumer", "TransactionProducer"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'hanabi.aio' has no attribute {name!r}")
    value = getattr(import_module(f"hanabi.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
