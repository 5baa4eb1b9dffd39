"""`archive --format delta`, from hundreds of queues. Needs a Delta that is built for this Spark."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.interop.jars import classpath
from tests.serving import Serving, serving
from tests.spark.broker_world import make_topic, put_raw, rows
from tests.spark.hadoop import skip_without
from tests.spark.standalone import environment

JARS = "delta-4"
QUEUES = 600  # the stack overflowed from 500 on
PROGRAM = Path(__file__).parent / "delta_program.py"
ROOT = Path(__file__).parents[3]


def run(broker: Serving, home: Path, topic: str, replay_to: str = "") -> Any:
    jars = ",".join(map(str, sorted(Path(classpath(JARS).removesuffix("*")).glob("*.jar"))))
    told = {"namesrv": broker.namesrv, "topic": topic, "archive": str(home / "archive"), "replay_to": replay_to}
    paths = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)])
    command = [sys.executable, str(PROGRAM), json.dumps(told | {"jars": jars})]
    env = environment(home) | {"PYTHONPATH": paths}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=800, env=env, cwd=home)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout.splitlines()[-1])


def bodies(broker: Serving, topic: str) -> Counter[bytes]:
    return Counter(row["body"] for row in rows(broker, "body", subscribe=topic))


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_hundreds_of_queues_are_archived_in_delta_each_message_once(tmp_path: Path) -> None:
    # In two runs. A condition for each queue overflowed the stack of Spark's optimizer.
    skip_without(JARS)
    with serving(tmp_path / "broker") as broker:
        topic, copies = make_topic(broker, "Wide", QUEUES), make_topic(broker, "Copies", 4)
        put_raw(broker, topic, [b"%d" % number for number in range(QUEUES)], QUEUES)
        assert run(broker, tmp_path, topic)["messages_archived"] == QUEUES
        put_raw(broker, topic, [b"%d" % number for number in range(QUEUES, QUEUES + 100)], QUEUES)
        again = run(broker, tmp_path, topic)
        assert (again["messages_archived"], again["messages_in_archive"]) == (100, QUEUES + 100)
        assert run(broker, tmp_path, topic, replay_to=copies)["messages_sent"] == QUEUES + 100
        assert bodies(broker, copies) == bodies(broker, topic)
