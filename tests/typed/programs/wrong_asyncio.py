"""Coroutines and options that are used wrongly."""

import hanabi
from hanabi import aio


async def main() -> None:
    producer = aio.Producer("shop", send_timeout_s="three")  # refused
    result = producer.send(hanabi.Message("Orders", b"1"))
    print(result.queue_offset)  # refused
    consumer = aio.LitePullConsumer("billing", consume_from="beginning")  # refused
    messages = await consumer.poll(timeout="1s")  # refused
    print(messages)
