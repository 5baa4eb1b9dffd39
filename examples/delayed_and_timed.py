"""Delayed messages (by a level, or any time) and timed messages. Any time needs RocketMQ 5 or Hanabi.

python delayed_and_timed.py 127.0.0.1:9876
"""

import queue
import sys
import time
from datetime import UTC, datetime, timedelta

import hanabi

namesrv = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
began = time.time()

with hanabi.Producer("reminders", namesrv=namesrv) as producer:
    producer.send(hanabi.Message("Reminders", b"timed", deliver_at=datetime.now(UTC) + timedelta(seconds=3)))
    producer.send(hanabi.Message("Reminders", b"delayed", delay=timedelta(seconds=2)))
    producer.send(hanabi.Message("Reminders", b"by level", delay_level=1))  # level 1 is 1 s, 2 is 5 s, 3 is 10 s ...
    producer.send(hanabi.Message("Reminders", b"at once"))

consumer = hanabi.PushConsumer("alarm-clock", namesrv=namesrv, consume_from="first")
consumer.subscribe("Reminders")
arrived: queue.Queue[tuple[str, float]] = queue.Queue()


@consumer.listener
def ring(messages: list[hanabi.StoredMessage]) -> None:
    for message in messages:
        arrived.put((message.body.decode(), time.time() - began))


with consumer:
    for _ in range(4):
        what, seconds = arrived.get(timeout=30)
        print(f"{what}: after {seconds:.1f} s")
