"""Hadoop in one process: HDFS and YARN with a node each. Executors on it are processes of their own, ended with it."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.interop.jars import JAVA, JavaUnavailable, classpath
from tests.spark.conftest import QUICK_START

JARS = "hadoop-3"
STOP_TIMEOUT_S = 120


@dataclass(frozen=True)
class Hadoop:
    """`conf` is for HADOOP_CONF_DIR; `files` is the URL of the root of HDFS, without a slash at its end."""

    conf: Path
    files: str
    home: Path

    def applications(self) -> set[str]:
        """Everything that YARN ran: each has a folder of its own for the logs of its containers."""
        return {path.name for path in self.home.glob("yarn/**/application_*") if path.is_dir()}


def skip_without(jar_set: str) -> None:
    """Skip what needs these jars where they cannot be had."""
    try:
        classpath(jar_set)
    except JavaUnavailable as error:
        pytest.skip(f"no {jar_set} here: {error}")


@contextmanager
def hadoop(home: Path) -> Iterator[Hadoop]:
    """Ready; every process of it is ended in any case."""
    home.mkdir(parents=True)
    folder = JAVA / JARS
    java = shutil.which("java")
    assert java is not None, "Java is not installed"
    command = [java, "-Xmx512m", *QUICK_START.split(), "-cp", f"{folder}:{classpath(JARS)}"]
    # Containers are started with the node manager's JAVA_HOME.
    env = {**os.environ, "JAVA_HOME": os.environ.get("JAVA_HOME", str(Path(java).resolve().parent.parent))}
    log = home / "hadoop.log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            [*command, str(folder / "MiniHadoop.java"), str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=written,
            env=env,
            cwd=home,
            text=True,
        )
    try:
        yield Hadoop(home / "conf", _ready(process, log), home)
    finally:
        _end(process)


def _ready(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None
    word, _, files = process.stdout.readline().strip().partition(" ")  # nothing, if it ends before that
    assert word == "ready", log.read_text(errors="replace")
    return files


def _end(process: subprocess.Popen[str]) -> None:
    """End the cluster with its input. What is still there then, containers too, is killed."""
    try:
        started = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        started = []
    try:
        process.communicate(timeout=STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    for each in started:
        try:
            each.kill()
        except psutil.NoSuchProcess:
            continue
