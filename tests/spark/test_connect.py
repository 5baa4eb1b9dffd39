"""Spark Connect and `spark-pipelines` find the formats without registration.

Both need packages that the extra `spark` does not bring (`pyspark[connect]`, `pyspark[pipelines]`), and are skipped
without them. The pipeline takes half a minute or more, and runs with HANABI_SLOW_TESTS=1 only.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.standalone import BIN
from tests.store.sample_stores import make_store

PROGRAM = Path(__file__).parent / "connect_program.py"
DEFINITION = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()

@dp.table
def messages():
    return spark.readStream.format("rocketmq-store").option("startingOffsets", "earliest").load("{store}")
"""
SPEC = """name: test
storage: {storage}
libraries:
  - glob:
      include: transformations/**
"""


def run(command: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    env = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=900, env=env, cwd=folder)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    make_store(tmp_path / "store", 60, queues=3)
    return tmp_path / "store"


@pytest.mark.timeout(1_000)
def test_a_session_of_spark_connect_finds_both_formats(store: Path, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="needs pip install 'pyspark[connect]'")
    done = run([sys.executable, str(PROGRAM), str(store), str(tmp_path)], tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["session"].startswith("pyspark.sql.connect")
    assert (found["rows"], found["streamed"]) == (60, 60)
    assert "no name server of 127.0.0.1:1" in found["refused"]


@pytest.mark.timeout(1_000)
@pytest.mark.slow
def test_a_declarative_pipeline_finds_the_format(store: Path, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="needs pip install 'pyspark[pipelines]'")
    pytest.importorskip("yaml", reason="needs pip install 'pyspark[pipelines]'")
    folder = tmp_path / "pipeline"
    (folder / "transformations").mkdir(parents=True)
    (folder / "transformations" / "messages.py").write_text(DEFINITION.format(store=store))
    (folder / "spark-pipeline.yml").write_text(SPEC.format(storage=(folder / "storage").as_uri()))
    done = run([str(BIN / "spark-pipelines"), "--remote", "local[2]", "run"], folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Run is COMPLETED" in done.stdout + done.stderr
    assert list(folder.rglob("messages/*.parquet"))
