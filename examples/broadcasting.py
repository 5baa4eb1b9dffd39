"""Broadcasting: every member of the group receives every message and keeps its own offsets in a file.

python broadcasting.py 127.0.0.1:9876
"""

import queue
import sys

import hanabi

namesrv = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"

with hanabi.Producer("config", namesrv=namesrv) as producer:
    for number in range(3):
        producer.send(hanabi.Message("ConfigChanges", f"change {number}".encode()))

arrived: queue.Queue[tuple[str, str]] = queue.Queue()


def member(name: str) -> hanabi.PushConsumer:
    """Create a member. In production each is a separate process with a fixed `client_id`."""
    consumer = hanabi.PushConsumer("cache-owners", namesrv=namesrv, broadcasting=True, consume_from="first")
    consumer.subscribe("ConfigChanges")

    @consumer.listener
    def apply(messages: list[hanabi.StoredMessage]) -> None:
        for message in messages:
            arrived.put((name, message.body.decode()))

    return consumer


with member("left"), member("right"):
    for name, change in sorted(arrived.get(timeout=30) for _ in range(6)):
        print(f"{name} got {change}")
