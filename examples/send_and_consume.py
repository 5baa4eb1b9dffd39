"""Normal messages: send some, consume them. For programs without an event loop.

hanabi serve &                             or any RocketMQ cluster
python send_and_consume.py 127.0.0.1:9876
"""

import sys
import threading

import hanabi

namesrv = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"

with hanabi.Producer("shop", namesrv=namesrv) as producer:
    for number in range(3):
        message = hanabi.Message("Orders", f"order {number}".encode(), tags="created", keys=[str(number)])
        result = producer.send(message)
        print(f"sent {message.body.decode()}: {result.status.name} to {result.queue.broker_name}")

consumer = hanabi.PushConsumer("billing", namesrv=namesrv, consume_from="first")
consumer.subscribe("Orders")
billed: set[str] = set()
all_billed = threading.Event()


@consumer.listener
def bill(messages: list[hanabi.StoredMessage]) -> None:
    """Handle messages in one of 20 threads. Return: consumed; raise: retry later."""
    for message in messages:
        billed.add(message.body.decode())
        print(f"billed {message.body.decode()}, keys {message.keys}, tags {message.tags}")
    if len(billed) == 3:
        all_billed.set()


with consumer:  # a service calls consumer.run() instead, which runs until SIGTERM
    assert all_billed.wait(30)
