"""Tour in one program: a new cluster, every kind of message, and a pipeline on Spark.

python demo.py                 (or `make demo`)
python demo.py --keep          (or `make demo KEEP=1`: the server keeps running)
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

import hanabi
from hanabi import Message, TransactionState

STEPS = ("created", "paid", "sent")
DEADLINE_S = 60
PRODUCTS = {"tea": "drinks", "coffee": "drinks", "bread": "food"}
QUICK_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # JVM options for short runs


class Seen:
    """Messages that the consumers received, by topic, and an event that is set when all have arrived."""

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
def cluster(home: Path, *, keep: bool) -> Iterator[str]:
    """Run `hanabi serve` in a process; yield the address of its name server. With *keep* it keeps running."""
    command = [sys.executable, "-m", "hanabi", "serve", "--home", str(home), "--log-level", "warning"]
    ports = ["--namesrv-port", "0", "--broker-port", "0"]  # any free ports
    printed = home / "console.log"
    with printed.open("w") as console:  # not a pipe, which would end with this program
        process = subprocess.Popen([*command, *ports], stdout=console, start_new_session=keep)  # noqa: S603
    try:
        lines = ready_lines(process, printed)
        for line in lines:
            print(f"   {line}")
        yield lines[0].rpartition(" ")[2]
    except BaseException:
        keep = False
        raise
    finally:
        if keep:
            process.returncode = 0  # detached: suppress the warning that it still runs
            print(f"   The server goes on; its files are in {home}. To stop it: kill {process.pid}")
        else:
            process.terminate()
            process.wait()


def ready_lines(process: subprocess.Popen[bytes], printed: Path) -> list[str]:
    """Wait for the two lines that the server prints when it is ready."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline and process.poll() is None:
        lines = [line for line in printed.read_text().splitlines() if line.startswith("ready ")]
        if len(lines) == 2:
            return lines
        time.sleep(0.05)
    raise SystemExit(f"the server did not start: {printed.read_text()}")


def order(number: int, hour: datetime) -> bytes:
    """Create an order; orders are 20 minutes apart, and number 9 is at *hour*."""
    product = list(PRODUCTS)[number % len(PRODUCTS)]
    fields = {"order": f"O-{number}", "customer": f"C-{number % 4}", "product": product, "quantity": number + 1}
    return json.dumps({**fields, "price": 2.5, "at": f"{hour + timedelta(minutes=20 * number - 180):%FT%TZ}"}).encode()


def send_everything(namesrv: str) -> None:
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    with hanabi.Producer("demo-shop", namesrv=namesrv) as producer:
        for number in [*range(10), 3]:
            producer.send(Message("Orders", order(number, hour), tags="new", keys=[f"O-{number}"]))
        print("   11 normal messages: ten orders, and one of them again")
        for name in ("A", "B"):
            for step in STEPS:
                producer.send(Message("Steps", f"{name} {step}".encode()), selector=hanabi.by_hash, arg=name)
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
            seen.tries["".join(message.keys)] += 1
            if message.keys == ("O-7",):  # always fails: retried, then a dead letter
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
    """Return the keys of the dead letter."""
    with hanabi.PullConsumer("demo-undertaker", namesrv=namesrv) as undertaker:
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            try:
                (queue,) = undertaker.queues_of("%DLQ%demo-all")
                if found := undertaker.pull(queue, 0).messages:
                    return " ".join(found[0].keys)
            except hanabi.MQError:  # the topic is created with the first dead letter
                pass
            time.sleep(0.2)
    raise SystemExit(f"no dead letter within {DEADLINE_S} s")


def through_spark(namesrv: str, folder: Path) -> None:
    """Run the pipeline `orders`: each order once, with its category, summed by the hour."""
    if find_spec("pyspark") is None:
        print("   left out: Spark is not installed here; pip install '.[spark]' brings it")
        return
    if shutil.which("java") is None:
        print("   left out: Spark needs Java, and there is none here")
        return
    products = folder / "products.csv"
    products.write_text("product,category\n" + "".join(f"{name},{kind}\n" for name, kind in PRODUCTS.items()))
    options = ["--output", str(folder / "orders"), "--output-topic", "Totals", "--by", "category"]
    options += ["--products", str(products), "--namesrv", namesrv]
    print(f"   hanabi pipeline run orders {' '.join(options)}", flush=True)
    command = [sys.executable, "-m", "hanabi", "pipeline", "run", "orders", *options]
    command += ["--conf", f"spark.driver.extraJavaOptions={QUICK_START}", "--conf", "spark.sql.shuffle.partitions=1"]
    ended_with = subprocess.run(command, check=False).returncode  # noqa: S603
    if ended_with:
        raise SystemExit(f"the pipeline ended with {ended_with}")
    with hanabi.PullConsumer("demo-reader", namesrv=namesrv) as reader:
        totals = [
            message.body.decode()
            for queue in reader.queues_of("Totals")
            for message in reader.pull(queue, 0, count=32).messages
        ]
    print(f"   {len(totals)} totals of hours that are over are messages of topic Totals, such as {totals[0]}")


def main(*, keep: bool = False) -> None:
    seen = Seen({"Orders": 10, "Steps": 6, "Reminders": 2, "Payments": 1})
    folder = Path(tempfile.mkdtemp(prefix="hanabi-demo-"))
    print("1. a name server and a broker, in one process, on an empty directory")
    try:
        with cluster(folder, keep=keep) as namesrv:
            print("2. send")
            send_everything(namesrv)
            print("3. consume")
            consume(namesrv, seen)
            tell(seen)
            print("4. a data pipeline on Spark over the topic Orders")
            through_spark(namesrv, folder)
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    received = sum(len(bodies) for topic, bodies in seen.bodies.items() if re.fullmatch(r"\w+", topic))
    end = "goes on" if keep else "has stopped"
    print(f"5. all seen: {received} messages consumed, 1 rolled back, 1 dead letter. The server {end}.")


def tell(seen: Seen) -> None:
    for name in ("A", "B"):
        steps = [body.split()[1] for body in seen.bodies["Steps"] if body.startswith(name)]
        assert steps == list(STEPS), steps
        print(f"   the steps of order {name} in order: {' -> '.join(steps)}")
    print(f"   later: {seen.bodies['Reminders']}")
    print(f"   of the transactions only the committed one: {seen.bodies['Payments']}")
    print(f"   order O-7 was tried {seen.tries['O-7']} times and is now a dead letter: {seen.bodies['dead letters']}")


if __name__ == "__main__":
    main(keep="--keep" in sys.argv[1:])
