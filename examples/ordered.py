"""Ordered messages: messages with one key go to one queue, and each queue is consumed in order.

python ordered.py 127.0.0.1:9876
"""

import sys
import threading
from collections import defaultdict

import hanabi

namesrv = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
STEPS = ["created", "paid", "packed", "sent"]
ORDERS = ["1001", "1002", "1003"]

with hanabi.Producer("shop", namesrv=namesrv) as producer:
    for step in STEPS:
        for order in ORDERS:
            producer.send(hanabi.Message("OrderSteps", step.encode(), ordering_key=order))  # one order, one queue

consumer = hanabi.PushConsumer("order-log", namesrv=namesrv, consume_from="first")
consumer.subscribe("OrderSteps")
log: dict[str, list[str]] = defaultdict(list)
complete = threading.Event()
failed_once = False


@consumer.listener(ordered=True)
def write(messages: list[hanabi.StoredMessage]) -> None:
    """Receive the messages of a queue one at a time. If it raises, the queue waits and retries: nothing is skipped."""
    global failed_once
    for message in messages:
        step = message.body.decode()
        if step == "paid" and not failed_once:
            failed_once = True
            raise hanabi.ConsumeLater("the bank does not answer", suspend_s=0.2)
        log[message.ordering_key or ""].append(step)
    if all(len(log[order]) >= len(STEPS) for order in ORDERS):
        complete.set()


with consumer:
    assert complete.wait(30)
for order in ORDERS:
    print(f"order {order}: {' -> '.join(log[order])}")
