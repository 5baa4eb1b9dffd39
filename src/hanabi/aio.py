"""The client for asyncio: the same classes as in `hanabi`, whose methods are awaited.

    async with hanabi.aio.Producer("orders", namesrv="127.0.0.1:9876") as producer:
        await producer.send(hanabi.Message("Orders", b"..."))
"""

from hanabi.client.consumer.push import PushConsumer
from hanabi.client.producer import Producer
from hanabi.client.transaction_producer import TransactionProducer

__all__ = ["Producer", "PushConsumer", "TransactionProducer"]
