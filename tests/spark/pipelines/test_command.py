"""`hanabi pipeline run`, each in a process with a JVM of its own: killed, interrupted, and to its end."""

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import hanabi
from hanabi.errors import ConfigError, MQError
from hanabi.spark.pipelines.failures import in_one_sentence, plain_spark_errors
from hanabi.spark.pipelines.session import settings_for
from tests.cli.commands import HANABI, environment
from tests.serving import Serving, serving
from tests.spark.broker_world import make_topic

MESSAGES = 2_000
DEADLINE_S = 300.0
QUICK_START = "spark.driver.extraJavaOptions=-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def send_numbers(broker: Serving, topic: str, count: int) -> None:
    with hanabi.Producer("tests", namesrv=broker.namesrv) as producer:
        for first in range(0, count, 200):
            producer.send_batch([hanabi.Message(topic, str(number).encode()) for number in range(first, first + 200)])


@contextmanager
def running(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Yield a run under way. However the test ends, nothing of it is left."""
    command = [*HANABI, "pipeline", "run", *arguments, "--master", "local[2]", "--conf", QUICK_START]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(happened: Callable[[], Any], process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not happened():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def jvms_of(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def archived(out: Path) -> list[int]:
    return sorted(int(body) for body in pq.read_table(out, columns=["body"]).column(0).to_pylist())


@pytest.mark.slow
def test_an_archive_that_is_killed_and_interrupted_has_every_message_once(tmp_path: Path) -> None:
    out, states = tmp_path / "archive", tmp_path / "archive" / "_archive" / "state"
    with serving(tmp_path / "broker") as broker:
        topic = make_topic(broker, "Orders")
        send_numbers(broker, topic, MESSAGES)
        options = ["--topics", topic, "-n", broker.namesrv, "--to", str(out), "--batch-messages", "400"]
        with running("archive", *options) as process:
            wait_for(lambda: len(list(states.glob("0*.json"))) >= 2, process)
            children = jvms_of(process)
            process.kill()
            process.wait()
            psutil.wait_procs(children, timeout=60)
            assert not [child for child in children if child.is_running()]
        assert len(json.loads(max(states.glob("0*.json")).read_text())["queues"]) > 0
        partial = archived(out)
        assert len(partial) == len(set(partial)) < MESSAGES

        with running("archive", *options, "--follow", "--interval-s", "1") as process:
            wait_for(lambda: json.loads(max(states.glob("0*.json")).read_text())["messages"] == MESSAGES, process)
            children = jvms_of(process)
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=60)
            assert process.returncode == 130
            assert told.splitlines()[-1] == "hanabi: interrupted"
            psutil.wait_procs(children, timeout=60)
            assert not [child for child in children if child.is_running()]
        assert archived(out) == list(range(MESSAGES))

        config = tmp_path / "replay.yaml"
        config.write_text(f"archive: {out}\nnamesrv: {broker.namesrv}\nto: Nowhere\nlimit: 7\nmaster: 'local[9]'\n")
        with running("replay", "--config", str(config), "--to", make_topic(broker, "Copy"), "--json") as process:
            told, complaints = process.communicate(timeout=DEADLINE_S)
            assert process.returncode == 0, complaints
            answer = json.loads(told)
            assert set(answer) == {"pipeline", "facts", "tables", "complaint"}
            assert (answer["pipeline"], answer["facts"]["messages_sent"], answer["complaint"]) == ("replay", 7, None)
            (table,) = answer["tables"]
            assert table["columns"] == ["topic", "messages", "bytes"]
            assert table["rows"][0][:2] == ["Copy", 7]
            assert complaints.splitlines() == ["starting Spark", "looking for messages", "sending"]


def test_what_spark_raises_is_told_in_one_sentence(spark: SparkSession) -> None:
    def fail(_: int) -> int:
        raise MQError("topic T: no broker takes it")

    with pytest.raises(MQError, match=r"^topic T: no broker takes it$"), plain_spark_errors():
        spark.sparkContext.parallelize([1]).map(fail).collect()
    with pytest.raises(ConfigError, match=r"^rocketmq has no option 'topik'"), plain_spark_errors():
        spark.read.format("rocketmq").option("topik", "x").load()
    with pytest.raises(MQError, match=r"^Spark: .*`nothing`.* cannot be found\.") as caught, plain_spark_errors():
        spark.table("nothing")
    assert "SQLSTATE" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(in_one_sentence("")) == "Spark: it failed without a word"
    lost = "[STREAM_FAILED] Query [id = 7] ended: DataLost: topic T was made again\n\n=== Streaming Query ==="
    assert str(in_one_sentence(lost)) == "topic T was made again"
    damaged = (
        'RemoteProtocolError: body 5 is damaged (option onDamage: "skip" leaves such messages out, "raw" gives it)'
    )
    assert str(in_one_sentence(damaged)) == "body 5 is damaged (--on-damage skip leaves such messages out)"


def test_the_user_has_the_last_word_about_settings() -> None:
    settings = settings_for("x", "local[*]", pipeline={"a": "1", "b": "1"}, user={"b": "2", "spark.ui.enabled": "true"})
    assert (settings["a"], settings["b"], settings["spark.ui.enabled"]) == ("1", "2", "true")
    assert (settings["spark.master"], settings["spark.driver.host"]) == ("local[*]", "127.0.0.1")
    assert "spark.driver.host" not in settings_for("x", "yarn", pipeline={}, user={})
