"""Listeners that cannot be called."""

import hanabi

consumer = hanabi.PushConsumer("billing", concurrency="8")  # refused
consumer.subscribe(["Orders"])  # refused


@consumer.listener  # refused
def bill(messages: list[str]) -> None:
    print(messages)
