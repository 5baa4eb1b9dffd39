"""Spark Connect and `spark-pipelines` find the formats without registration: one server for both.

They need packages that the extra `spark` does not bring (`pyspark[pipelines]`), and are skipped without them. The tool
takes a while to start, and runs with HANABI_SLOW_TESTS=1 only.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.connect_server import connect_server
from tests.spark.standalone import BIN
from tests.store.sample_stores import make_store

PROGRAM = Path(__file__).parent / "connect_program.py"
DEFINITION = """
from hanabi.spark.pipelines.declarative import define_messages

define_messages(store="{store}")
"""
SPEC = """name: test
storage: {storage}
libraries:
  - glob:
      include: transformations/**
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("grpc", reason="needs pip install 'pyspark[pipelines]'")
    with connect_server(tmp_path_factory.mktemp("connect")) as remote:
        yield remote


@pytest.fixture
def store(tmp_path: Path) -> Path:
    make_store(tmp_path / "store", 60, queues=3)
    return tmp_path / "store"


def run(command: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    env = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=env, cwd=folder)


def test_a_session_of_spark_connect_finds_both_formats(server: str, store: Path, tmp_path: Path) -> None:
    done = run([sys.executable, str(PROGRAM), server, str(store), str(tmp_path)], tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["session"].startswith("pyspark.sql.connect")
    assert (found["rows"], found["streamed"]) == (60, 60)
    assert "no name server of 127.0.0.1:1" in found["refused"]


@pytest.mark.slow
def test_a_declarative_pipeline_finds_the_format(server: str, store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pipeline"
    (folder / "transformations").mkdir(parents=True)
    (folder / "transformations" / "messages.py").write_text(DEFINITION.format(store=store))
    (folder / "spark-pipeline.yml").write_text(SPEC.format(storage=(folder / "storage").as_uri()))
    done = run([str(BIN / "spark-pipelines"), "--remote", server, "run"], folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Run is COMPLETED" in done.stdout + done.stderr
    counted = run([sys.executable, str(PROGRAM), server, "messages"], tmp_path)
    assert counted.stdout.splitlines()[-1:] == ["60"], counted.stderr
