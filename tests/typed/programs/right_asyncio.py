"""The same for asyncio: coroutines, and iteration over a lite pull consumer."""

import asyncio

import hanabi
from hanabi import aio


async def main() -> None:
    async with aio.Producer("shop", namesrv=["a:9876", "b:9876"], in_flight_max=64) as producer:
        results = await producer.send_many([hanabi.Message("Orders", b"1"), hanabi.Message("Orders", b"2")])
        print(len(results))
    consumer = aio.LitePullConsumer("billing", namesrv="127.0.0.1:9876", consume_from="first", auto_commit=False)
    consumer.subscribe("Orders", hanabi.sql("amount > 100"))
    async with consumer:
        async for message in consumer:
            body: bytes = message.body
            print(body, message.keys, message.ordering_key)
            await consumer.commit()


asyncio.run(main())
