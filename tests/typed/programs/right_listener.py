"""Push consumers with listeners: blocking, asyncio, ordered."""

import hanabi

consumer = hanabi.PushConsumer("billing", namesrv="127.0.0.1:9876", concurrency=8, max_reconsume_times=5)
consumer.subscribe("Orders", "created || paid")


@consumer.listener
def bill(messages: list[hanabi.StoredMessage]) -> None:
    for message in messages:
        if not message.body:
            raise hanabi.DeadLetters(positions=[0])


ordered = hanabi.PushConsumer("shipping", namesrv="127.0.0.1:9876")
ordered.subscribe("Orders")


@ordered.listener(ordered=True)
async def ship(messages: list[hanabi.StoredMessage]) -> None:
    print(len(messages))
