"""`hanabi pipeline run ... --master spark://...`: the same pipelines, on a master and two workers of their own."""

from pathlib import Path
from typing import Any

import pytest

from hanabi.testing.waiting import wait_until
from tests.serving import Serving, serving
from tests.spark.broker_world import make_topic, send
from tests.spark.pipelines.commands import arrived, facts_in, output_of, pipeline_command
from tests.spark.standalone import CONF, Standalone, standalone

MESSAGES = 400


def run(cluster: Standalone, serving: Serving, *arguments: str) -> Any:
    """Return the facts of a pipeline that ran on *cluster*."""
    command = pipeline_command(serving, cluster.url, CONF, *arguments)
    return facts_in(output_of(command, cluster.env, cluster.home, timeout_s=600))


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
        assert arrived(broker, copies) == arrived(broker, topic)
        traffic = run(cluster, broker, "traffic", "--topics", f"{topic},{copies}")
        assert traffic["messages"] == 2 * MESSAGES

        ran = [path.name for path in (tmp_path / "cluster").glob("work-*/app-*")]
        assert len(set(ran)) == 4, "each run was an application of the cluster"
        wait_until(lambda: not cluster.executors(), "the end of all executors", seconds=60)
