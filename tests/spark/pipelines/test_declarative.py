"""The ready tables for `spark-pipelines`: what they compute, and the project in `examples` as its users run it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.pipelines.flow import AutoCdcFlow, Flow
from pyspark.pipelines.graph_element_registry import GraphElementRegistry, graph_element_registration_context
from pyspark.pipelines.output import MaterializedView, Output, StreamingTable
from pyspark.sql import SparkSession

from hanabi.spark.pipelines.declarative import define_messages, define_traffic
from hanabi.spark.shared.columns import MESSAGE
from tests.serving import Serving, serving
from tests.spark.broker_world import make_topic, send
from tests.spark.standalone import BIN, QUICK_DEFAULTS
from tests.store.sample_stores import make_store

PROJECT = Path(__file__).parent.parent.parent.parent / "examples" / "declarative"
SPEC = "spark-pipeline.yml"


class Definitions(GraphElementRegistry):
    """Keeps what is defined, as the tool does before it asks Spark to run it."""

    def __init__(self) -> None:
        self.kinds: dict[str, type[Output]] = {}
        self.flows: dict[str, Flow] = {}

    def register_output(self, output: Output) -> None:
        self.kinds[output.name] = type(output)

    def register_flow(self, flow: Flow) -> None:
        self.flows[flow.target] = flow

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        raise AssertionError(flow)

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        raise AssertionError(sql_text)

    def rows(self, name: str) -> list[dict[str, Any]]:
        return [row.asDict() for row in self.flows[name].func().collect()]


def test_the_tables_are_those_of_the_pipeline_traffic(spark: SparkSession, tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    make_store(tmp_path / "store", 60, queues=3, body_bytes=200)
    defined = Definitions()
    with graph_element_registration_context(defined):
        define_messages("letters", store=store)
        define_traffic("letters", prefix="t")
    assert defined.kinds == {"letters": StreamingTable} | {
        f"t_{name}": MaterializedView for name in ("counts", "minutes", "sizes", "queues")
    }
    letters = defined.flows["letters"].func()
    assert letters.isStreaming
    assert letters.columns == [*MESSAGE]

    spark.read.format("rocketmq-store").load(store).createOrReplaceTempView("letters")
    defined.flows["t_counts"].func().createOrReplaceTempView("t_counts")
    assert defined.rows("t_sizes") == [{"topic": "T", "size_up_to": 256, "messages": 60, "bytes": 12_000}]
    assert defined.rows("t_queues") == [
        {"topic": "T", "queues": 3, "messages": 60, "fewest": 20, "most": 20, "skew": 1.0}
    ]
    assert sorted(row["messages"] for row in defined.rows("t_minutes")) == [20, 40]


def run(folder: Path, broker: Serving) -> None:
    env = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONF_DIR": str(folder / "conf"),
        "NAMESRV_ADDR": broker.namesrv,
    }
    command = [str(BIN / "spark-pipelines"), "--remote", "local[2]", "run"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=env, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Run is COMPLETED" in done.stdout + done.stderr


def table(folder: Path, name: str) -> list[dict[str, Any]]:
    files = sorted((folder / "spark-warehouse" / name).glob("*.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def numbers(first: int, end: int) -> list[str]:
    return [f"{number:03}" for number in range(first, end)]


@pytest.mark.slow
@pytest.mark.timeout(1_400)  # on a machine with much else to do; alone it takes a minute and a half
def test_the_project_of_the_examples_keeps_its_tables_up_to_date(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="needs pip install 'pyspark[pipelines]'")
    folder = tmp_path / "project"
    shutil.copytree(PROJECT, folder)
    spec = (folder / SPEC).read_text()
    (folder / SPEC).write_text(spec.replace("file:///tmp/orders-pipeline", (tmp_path / "storage").as_uri()))
    with (folder / "conf" / "spark-defaults.conf").open("a") as conf:
        conf.write(QUICK_DEFAULTS)
    with serving(tmp_path / "broker") as broker:
        topic = make_topic(broker, "Orders", 2)
        send(broker, topic, numbers(0, 100), tags="paid")
        run(folder, broker)
        assert sorted(row["body"].decode() for row in table(folder, "messages")) == numbers(0, 100)
        assert [row["messages"] for row in table(folder, "traffic_sizes")] == [100]

        send(broker, topic, numbers(100, 150), tags="open")
        run(folder, broker)
    assert sorted(row["body"].decode() for row in table(folder, "messages")) == numbers(0, 150)
    assert table(folder, "traffic_sizes") == [{"topic": topic, "size_up_to": 64, "messages": 150, "bytes": 450}]
    assert table(folder, "traffic_queues") == [
        {"topic": topic, "queues": 2, "messages": 150, "fewest": 75, "most": 75, "skew": 1.0}
    ]
    by_tag = {
        tag: sum(row["messages"] for row in table(folder, "traffic_minutes") if row["tag"] == tag)
        for tag in ("paid", "open")
    }
    assert by_tag == {"paid": 100, "open": 50}
