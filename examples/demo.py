"""A tour in one program: a cluster of its own, every kind of message through it, and what was seen at the end.

python demo.py                 (or `make demo`)
"""

import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hanabi
from hanabi import Message, TransactionState

STEPS = ("created", "paid", "sent")
DEADLINE_S = 60


class Seen:
    """What the consumers got, by topic, and an event that is set when all of it is there."""

    def __init__(self, expected: dict[str, int]) -> None:
        self.bodies: dict[str, list[str]] = defaultdict(list)
        self.tries: Counter[str] = Counter()
        self._expected, self._lock, self.complete = expected, threading.Lock(), threading.Event()

    def add(self, message: hanabi.StoredMessage) -> None:
        with self._lock:
            self.bodies[message.topic].append(message.body.decode())
            if all(len(self.bodies[topic]) >= count for topic, count in self._expected.items()):
                self.complete.set()


@contextmanager
def cluster(home: Path) -> Iterator[str]:
    """`hanabi serve` in a process of its own; gives the address of its name server."""
    command = [sys.executable, "-m", "hanabi", "serve", "--home", str(home), "--log-level", "warning"]
    ports = ["--namesrv-port", "0", "--broker-port", "0"]  # any free ones
    with subprocess.Popen([*command, *ports], stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline().strip() for _ in range(2)]
            for line in lines:
                print(f"   {line}")
            yield lines[0].rpartition(" ")[2]
        finally:
            process.terminate()


def send_everything(namesrv: str) -> None:
    with hanabi.Producer("demo-shop", namesrv=namesrv) as producer:
        for number in range(10):
            producer.send(Message("Orders", f"order {number}".encode(), tags="new", keys=[f"O-{number}"]))
        print("   10 normal messages")
        for order in ("A", "B"):
            for step in STEPS:
                producer.send(Message("Steps", f"{order} {step}".encode()), selector=hanabi.by_hash, arg=order)
        print("   6 ordered ones: the steps of two orders")
        producer.send(Message("Reminders", b"pay!", delay_level=1))
        producer.send(Message("Reminders", b"really!", deliver_time_ms=int(time.time() * 1000) + 2_000))
        print("   2 for later: delay level 1 (one second), and a moment two seconds from now")
    transactions = hanabi.TransactionProducer("demo-tx", namesrv=namesrv, check=lambda _: TransactionState.ROLLBACK)
    with transactions:
        for state in (TransactionState.COMMIT, TransactionState.ROLLBACK):
            transactions.send_in_transaction(
                Message("Payments", f"payment, then {state.name.lower()}".encode()), lambda *_, state=state: state
            )
    print("   2 in transactions: one committed, one rolled back")


def consume(namesrv: str, seen: Seen) -> None:
    unordered = hanabi.PushConsumer("demo-all", namesrv=namesrv, consume_from="first", max_reconsume_times=1)
    for topic in ("Orders", "Reminders", "Payments"):
        unordered.subscribe(topic)
    ordered = hanabi.PushConsumer("demo-steps", namesrv=namesrv, consume_from="first")
    ordered.subscribe("Steps")

    @unordered.listener
    def take(messages: list[hanabi.StoredMessage]) -> None:
        for message in messages:
            body = message.body.decode()
            seen.tries[body] += 1
            if body == "order 7":  # this one never works: it is tried again, and then a dead letter
                raise hanabi.ConsumeLater("a bad order", delay_level=1)
            seen.add(message)

    @ordered.listener(ordered=True)
    def take_in_order(messages: list[hanabi.StoredMessage]) -> None:
        for message in messages:
            seen.add(message)

    with unordered, ordered:
        if not seen.complete.wait(DEADLINE_S):
            raise SystemExit(f"not everything came within {DEADLINE_S} s: {dict(seen.bodies)}")
        seen.bodies["dead letters"] = [dead_letter(namesrv)]


def dead_letter(namesrv: str) -> str:
    """The message that was given up."""
    with hanabi.PullConsumer("demo-undertaker", namesrv=namesrv) as undertaker:
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            try:
                (queue,) = undertaker.queues_of("%DLQ%demo-all")
                if found := undertaker.pull(queue, 0).messages:
                    return found[0].body.decode()
            except hanabi.MQError:  # the topic is made with the first dead letter
                pass
            time.sleep(0.2)
    raise SystemExit(f"no dead letter within {DEADLINE_S} s")


def main() -> None:
    seen = Seen({"Orders": 9, "Steps": 6, "Reminders": 2, "Payments": 1})
    print("1. a name server and a broker, in one process, on an empty directory")
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as namesrv:
        print("2. send")
        send_everything(namesrv)
        print("3. consume")
        consume(namesrv, seen)
    for order in ("A", "B"):
        steps = [body.split()[1] for body in seen.bodies["Steps"] if body.startswith(order)]
        assert steps == list(STEPS), steps
        print(f"   the steps of order {order} in order: {' -> '.join(steps)}")
    print(f"   later: {seen.bodies['Reminders']}")
    print(f"   of the transactions only the committed one: {seen.bodies['Payments']}")
    print(
        f"   'order 7' was tried {seen.tries['order 7']} times and is now a dead letter: {seen.bodies['dead letters']}"
    )
    received = sum(len(bodies) for topic, bodies in seen.bodies.items() if re.fullmatch(r"\w+", topic))
    print(f"4. all seen: {received} messages consumed, 1 rolled back, 1 dead letter. The server has stopped.")


if __name__ == "__main__":
    main()
