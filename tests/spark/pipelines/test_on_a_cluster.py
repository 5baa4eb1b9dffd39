"""`hanabi pipeline run ... --master spark://...`: the same pipelines, on a master and two workers of their own."""

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import HANABI
from tests.serving import Serving, serving
from tests.spark.broker_world import make_topic, rows, send
from tests.spark.standalone import CONF, Standalone, standalone, wait_until

MESSAGES = 400


def run(cluster: Standalone, serving: Serving, *arguments: str) -> Any:
    """What the pipeline answers, which must come to a good end."""
    confs = [word for name, value in CONF.items() for word in ("--conf", f"{name}={value}")]
    command = [*HANABI, "pipeline", "run", *arguments, "-n", serving.namesrv, "--master", cluster.url, *confs, "--json"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=600, env=dict(cluster.env), cwd=cluster.home
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["complaint"] is None
    return answer["facts"]


def sent(serving: Serving, topic: str) -> Counter[tuple[object, ...]]:
    found = rows(serving, "keys body tags", subscribe=topic)
    return Counter((*row["keys"], row["body"], row["tags"]) for row in found)


@pytest.mark.slow
@pytest.mark.timeout(1_200)  # on a machine with much else to do; alone it takes a minute
def test_an_archive_is_written_and_replayed_by_the_executors_of_a_cluster(tmp_path: Path) -> None:
    archive = str(tmp_path / "archive")
    with standalone(tmp_path / "cluster") as cluster, serving(tmp_path / "broker") as broker:
        topic, copies = make_topic(broker, "Orders"), make_topic(broker, "Copies")
        send(broker, topic, [f"{number:04}" for number in range(MESSAGES)], tags="paid")
        first = run(cluster, broker, "archive", "--topics", topic, "--to", archive, "--batch-messages", "150")
        assert (first["messages_archived"], first["messages_lost"]) == (MESSAGES, 0)
        again = run(cluster, broker, "archive", "--topics", topic, "--to", archive)
        assert (again["messages_archived"], again["messages_in_archive"]) == (0, MESSAGES)
        replayed = run(cluster, broker, "replay", "--archive", archive, "--to", copies)
        assert replayed["messages_sent"] == MESSAGES
        assert sent(broker, copies) == sent(broker, topic)
        traffic = run(cluster, broker, "traffic", "--topics", f"{topic},{copies}")
        assert traffic["messages"] == 2 * MESSAGES

        ran = [path.name for path in (tmp_path / "cluster").glob("work-*/app-*")]
        assert len(set(ran)) == 4, "each run was an application of the cluster"
        wait_until("the end of all executors", lambda: not cluster.executors(), 60)
