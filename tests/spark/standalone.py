"""A standalone Spark cluster: a master and two workers in processes of their own, and programs submitted to it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import psutil
import pyspark

from tests.interop.processes import ServerProcess, free_port
from tests.spark.conftest import QUICK_START

BIN = Path(pyspark.__file__).parent / "bin"
EXECUTOR = "CoarseGrainedExecutorBackend"
CONF = {
    "spark.executor.memory": "480m",  # Spark refuses less
    "spark.driver.memory": "512m",
    "spark.executor.cores": "1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": QUICK_START,
    "spark.executor.extraJavaOptions": QUICK_START,
}
# The same for programs that start a Spark of their own and read spark-defaults.conf.
QUICK_DEFAULTS = f"""
spark.driver.extraJavaOptions {QUICK_START}
spark.ui.enabled false
spark.sql.shuffle.partitions 2
"""


def environment(home: Path, python: str = sys.executable) -> dict[str, str]:
    """Count only what is installed for *python*: nothing of this repository is on the path but the package."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPARK", "PYSPARK"))}
    return env | {
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "SPARK_DAEMON_MEMORY": "192m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_START,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(home / "local"),
    }


class Submitted:
    """A program that runs on the cluster, its driver in processes of its own."""

    def __init__(self, command: Sequence[str], home: Path, log: Path, env: Mapping[str, str]) -> None:
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=env,
                cwd=home,
                start_new_session=True,
            )

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def is_over(self) -> bool:
        return self._process.poll() is not None

    def wait(self, seconds: float = 600) -> int:
        return self._process.wait(seconds)

    def kill(self) -> None:
        """kill -9 of the driver's JVM and of its Python, at once."""
        if not self.is_over():
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(120)


class Standalone:
    """The cluster. `url` is for `--master`, `env` for who uses it, `bin` has Spark's own programs."""

    def __init__(self, home: Path, url: str, env: Mapping[str, str], bin: Path) -> None:  # noqa: A002 - its name
        self.home, self.url, self.env, self.bin = home, url, env, bin
        self._workers: list[ServerProcess] = []
        self._submitted: list[Submitted] = []

    def add_worker(self, worker: ServerProcess) -> None:
        self._workers.append(worker)

    def wait_ready(self) -> None:
        for worker in self._workers:
            worker.wait_until(partial(_is_registered, worker), "register", timeout_s=300)

    def submit(self, program: Path, *arguments: str) -> Submitted:
        """Run as `spark-submit` does, in client mode."""
        confs = [word for name, value in CONF.items() for word in ("--conf", f"{name}={value}")]
        command = [str(self.bin / "spark-submit"), "--master", self.url, *confs, str(program), *arguments]
        made = Submitted(command, self.home, self.home / f"driver-{len(self._submitted)}.log", self.env)
        self._submitted.append(made)
        return made

    def executors(self) -> list[psutil.Process]:
        """Return the JVMs that run tasks."""
        found = []
        for worker in self._workers:
            for child in psutil.Process(worker.pid).children(recursive=True):
                try:
                    if any(EXECUTOR in word for word in child.cmdline()):
                        found.append(child)
                except psutil.NoSuchProcess:
                    continue
        return found

    def close(self) -> None:
        for each in self._submitted:
            each.kill()
        for worker in self._workers:
            children = psutil.Process(worker.pid).children(recursive=True)
            worker.kill()
            for child in children:
                try:
                    child.kill()
                except psutil.NoSuchProcess:
                    continue


def _is_registered(worker: ServerProcess) -> bool:
    return "Successfully registered" in worker.output()


@contextmanager
def standalone(home: Path, python: str = sys.executable, spark_bin: Path = BIN) -> Iterator[Standalone]:
    """Yield one master and two workers with a core each, ready; every process is ended in any case.

    All of them are those of *spark_bin*, and run Python programs with *python*.
    """
    home.mkdir(parents=True, exist_ok=True)
    env = environment(home, python)
    port = free_port()
    spark_class = str(spark_bin / "spark-class")
    cluster = Standalone(home, f"spark://127.0.0.1:{port}", env, spark_bin)
    with ExitStack() as stack:
        master = ServerProcess(
            "Spark's master",
            [
                spark_class,
                "org.apache.spark.deploy.master.Master",
                *("--host", "127.0.0.1", "--port", str(port), "--webui-port", str(free_port())),
            ],
            home / "master.log",
            env,
        )
        stack.callback(master.kill)
        stack.callback(cluster.close)
        for number in range(2):
            words = ["--host", "127.0.0.1", "--webui-port", str(free_port()), "--cores", "1", "--memory", "640m"]
            words += ["--work-dir", str(home / f"work-{number}"), cluster.url]
            cluster.add_worker(
                ServerProcess(
                    f"Spark's worker {number}",
                    [spark_class, "org.apache.spark.deploy.worker.Worker", *words],
                    home / f"worker-{number}.log",
                    env,
                )
            )
        cluster.wait_ready()
        yield cluster
