"""A broker that is killed in the middle of a task and comes back: the task waits, and loses nothing."""

import sys
from pathlib import Path

import hanabi
from hanabi.spark.broker_source import BrokerSource
from tests.interop.processes import ServerProcess, free_port
from tests.serving import Serving
from tests.spark.broker_world import make_topic
from tests.spark.decoded import rows_of

COUNT = 3_000


def test_a_task_goes_on_when_its_broker_is_back(tmp_path: Path) -> None:
    namesrv, port = free_port(), free_port(beside=(-2, 1))
    (tmp_path / "broker.conf").write_text("brokerName=broker-a\nflushDiskType=SYNC_FLUSH\n")
    command = [sys.executable, "-m", "hanabi", "serve", "-c", str(tmp_path / "broker.conf")]
    command += ["--home", str(tmp_path / "data"), "--namesrv-port", str(namesrv), "--broker-port", str(port)]

    def start(number: int) -> Serving:
        return Serving(ServerProcess("hanabi serve", command, tmp_path / f"console-{number}.log"))

    broker = start(1)
    try:
        topic = make_topic(broker, "Orders", 1)
        with hanabi.Producer("tests", namesrv=broker.namesrv) as producer:
            sent = [hanabi.Message(topic, b"%05d" % number) for number in range(COUNT)]
            producer.send_batch(sent, queue=producer.queues(topic)[0])
        options = {"namesrv": broker.namesrv, "subscribe": topic, "maxrowsperbatch": "100", "pullsinflight": "2"}
        source = BrokerSource(options)
        reader = source.reader(source.schema())
        (task,) = reader.partitions()
        batches = reader.read(task)
        found = rows_of(next(batches))
        broker.process.kill()
        broker = start(2)
        found += [row for batch in batches for row in rows_of(batch)]
        assert [int(row["body"]) for row in found] == list(range(COUNT))
    finally:
        broker.process.kill()
