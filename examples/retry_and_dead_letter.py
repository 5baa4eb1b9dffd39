"""Retry and dead letters: a failed message is delivered again later, and finally becomes a dead letter.

python retry_and_dead_letter.py 127.0.0.1:9876
"""

import sys
import threading
import time

import hanabi

namesrv = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
group = f"parcels-{int(time.time())}"  # a new group each time, so that there is exactly one dead letter

with hanabi.Producer("shop", namesrv=namesrv) as producer:
    producer.send(hanabi.Message("Parcels", b"to nowhere", keys=["P-1"]))

consumer = hanabi.PushConsumer(group, namesrv=namesrv, consume_from="first", max_reconsume_times=2)
consumer.subscribe("Parcels")
given_up = threading.Event()


@consumer.listener
def deliver(messages: list[hanabi.StoredMessage]) -> None:
    (message,) = messages
    print(f"try {message.reconsume_times + 1} of {message.body.decode()!r}")
    if message.reconsume_times == 2:
        given_up.set()
    # Any exception means "retry later": after 10 s, then 30 s, 1 min ... This one sets the delay.
    raise hanabi.ConsumeLater("no such address", delay_level=1)


with consumer:
    assert given_up.wait(60)

with hanabi.PullConsumer("undertaker", namesrv=namesrv) as undertaker:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            (queue,) = undertaker.queues_of(f"%DLQ%{group}")
        except hanabi.MQError:  # the topic is created with the first dead letter
            time.sleep(0.2)
            continue
        if dead := undertaker.pull(queue, 0).messages:
            print(f"dead letter: {dead[0].body.decode()!r}, keys {dead[0].keys}")
            break
        time.sleep(0.2)
