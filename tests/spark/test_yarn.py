"""YARN and HDFS: the pipelines and the source, where Hadoop runs the executors and has the files."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from hanabi.errors import ConfigError, MQError
from hanabi.spark.pipelines.archive.home import ArchiveHome, writing_archive
from hanabi.spark.pipelines.archive.state import ArchiveState
from hanabi.spark.pipelines.session import session
from hanabi.spark.pipelines.support.file_system import FileSystem
from tests.serving import Serving, serving
from tests.spark.broker_world import make_topic, send
from tests.spark.hadoop import JARS, Hadoop, hadoop, skip_without
from tests.spark.pipelines.commands import arrived, confs, facts_in, output_of, pipeline_command
from tests.spark.standalone import BIN, CONF, environment

MESSAGES = 400
PROGRAM = Path(__file__).parent / "installed_program.py"
SETTINGS = {
    **CONF,
    "spark.executor.instances": "2",
    # The node has them: without this, 460 MB are packed and uploaded for each application.
    "spark.yarn.jars": f"local:{Path(pyspark.__file__).parent / 'jars'}/*",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    skip_without(JARS)
    with hadoop(tmp_path_factory.mktemp("hadoop") / "cluster") as running:
        yield running


def call(cluster: Hadoop, home: Path, *command: str) -> str:
    """Return what a command prints that knows of Hadoop by its environment only."""
    return output_of([*command], environment(home) | {"HADOOP_CONF_DIR": str(cluster.conf)}, home, timeout_s=900)


def run(cluster: Hadoop, home: Path, broker: Serving, *arguments: str) -> Any:
    """Return the facts of a pipeline that ran on YARN."""
    return facts_in(call(cluster, home, *pipeline_command(broker, "yarn", SETTINGS, *arguments)))


@pytest.mark.slow
@pytest.mark.timeout(2_400)  # on a machine with much else to do
def test_archives_on_hdfs_are_written_and_replayed_by_executors_of_yarn(cluster: Hadoop, tmp_path: Path) -> None:
    before = cluster.applications()
    with serving(tmp_path / "broker") as broker:
        topic, copies, others = (make_topic(broker, name) for name in ("Orders", "Copies", "Others"))
        send(broker, topic, [f"{number:04}" for number in range(MESSAGES)], tags="paid")
        on_hdfs = f"{cluster.files}/archives/orders"
        first = run(cluster, tmp_path, broker, "archive", "--topics", topic, "--to", on_hdfs, "--batch-messages", "150")
        assert (first["messages_archived"], first["messages_lost"], first["archive"]) == (MESSAGES, 0, on_hdfs)
        # A path without a scheme is on the file system that Hadoop's settings name: the same archive.
        again = run(cluster, tmp_path, broker, "archive", "--topics", topic, "--to", "/archives/orders")
        assert (again["messages_archived"], again["messages_in_archive"]) == (0, MESSAGES)
        replayed = run(cluster, tmp_path, broker, "replay", "--archive", on_hdfs, "--to", copies)
        assert replayed["messages_sent"] == MESSAGES
        assert arrived(broker, copies) == arrived(broker, topic)

        local = (tmp_path / "archive").as_uri()
        there = run(cluster, tmp_path, broker, "archive", "--topics", topic, "--to", local)
        assert there["messages_archived"] == MESSAGES
        assert list((tmp_path / "archive").glob("topic=Orders/hour=*/*.parquet"))
        assert run(cluster, tmp_path, broker, "replay", "--archive", local, "--to", others)["messages_sent"] == MESSAGES
        assert arrived(broker, others) == arrived(broker, topic)
    assert len(cluster.applications() - before) == 5, "each run was an application of YARN"


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_a_program_submitted_to_yarn_reads_a_topic_into_files_on_hdfs(cluster: Hadoop, tmp_path: Path) -> None:
    before = cluster.applications()
    with serving(tmp_path / "broker") as broker:
        topic = make_topic(broker, "Orders")
        send(broker, topic, [f"{number}" for number in range(MESSAGES)])
        words = [str(BIN / "spark-submit"), "--master", "yarn", *confs(SETTINGS), str(PROGRAM)]
        printed = call(cluster, tmp_path, *words, broker.namesrv, topic, f"{cluster.files}/table")
    (told,) = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert told["rows"] == MESSAGES
    assert len(cluster.applications() - before) == 1


@pytest.mark.slow
def test_of_two_runs_that_commit_to_hdfs_the_second_loses(cluster: Hadoop, spark: SparkSession) -> None:
    url = f"{cluster.files}/archives/contested"
    with writing_archive(FileSystem(spark, url)) as one, writing_archive(FileSystem(spark, url)) as two:
        steps = [step(one, b"first"), step(two, b"second")]
        one.commit(steps[0])
        with pytest.raises(MQError, match="another run is archiving"):
            two.commit(steps[1])
        assert one.files.read("t/a.parquet") == b"first"


def step(home: ArchiveHome, data: bytes) -> ArchiveState:
    """Return the first step of an archive, its only file written and not yet in place."""
    source = f"{home.staging()}/t/a.parquet"
    home.files.create(source, data)
    return ArchiveState(version=1, messages=1, moves=[(source, "t/a.parquet")])


@pytest.mark.slow
def test_the_root_of_hdfs_is_a_directory_like_others(cluster: Hadoop, spark: SparkSession) -> None:
    root = FileSystem(spark, f"{cluster.files}/")
    assert root.create("roots/a", b"data")
    assert [file.name for file in root.files("roots")] == ["roots/a"]
    assert root.read("roots/a") == b"data"
    assert root.at("roots/a") == f"{cluster.files}/roots/a"


def test_yarn_without_hadoops_settings_is_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="HADOOP_CONF_DIR"), session({"spark.master": "yarn"}, tmp_path / "log"):
        pass
