"""The Spark session that a pipeline runs in. What the JVM writes goes to a file, so that a terminal shows our words."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from hanabi.errors import ConfigError
from hanabi.spark.pipelines.contract import SparkFailed
from hanabi.spark.registration import register
from hanabi.spark.shared.versions import check_version

LOCAL: Final = "local[*]"
_ALWAYS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}
_ON_THIS_MACHINE: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
}
_HADOOP_SITES: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")  # one is enough
_JVM_ENDS_SECONDS: Final = 30


def settings_for(name: str, master: str, *, pipeline: Mapping[str, str], user: Mapping[str, str]) -> dict[str, str]:
    """Return all settings of a session: ours, those of the pipeline, those of the user, who has the last word."""
    here = _ON_THIS_MACHINE if master.startswith("local") else {}
    named = {"spark.master": master, "spark.app.name": f"hanabi {name}"}
    return {**_ALWAYS, **here, **pipeline, **user, **named}


@contextmanager
def session(settings: Mapping[str, str], log: Path) -> Iterator[SparkSession]:
    """A session with *settings*; it and its JVM are gone afterwards. Raises ConfigError if something it needs is
    missing, SparkFailed if Spark does not start."""
    check_version(pyspark.__version__)
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise ConfigError("Spark needs Java 17 or newer, and there is none: install it, or set JAVA_HOME")
    _check_hadoop(settings["spark.master"], os.environ)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need this package, too
    gateway: Any = None
    with log.open("ab") as written:
        try:
            conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
            launch: Any = launch_gateway
            gateway = launch(conf, popen_kwargs={"stdout": written, "stderr": written})
            SparkContext._ensure_initialized(gateway=gateway, conf=conf)
            spark = SparkSession.builder.config(conf=conf).getOrCreate()
        except Exception as error:
            _end(gateway)
            raise SparkFailed(f"Spark did not start: {_reason(error)}") from error
    try:
        register(spark)
        yield spark
    finally:
        spark.stop()
        _end(gateway)


def _check_hadoop(master: str, environment: Mapping[str, str]) -> None:
    """Spark says this in its log only, and here just that its JVM has ended."""
    if master == "yarn" and not any(environment.get(name) for name in _HADOOP_SITES):
        raise ConfigError(
            "on YARN, HADOOP_CONF_DIR must name the directory with Hadoop's core-site.xml and yarn-site.xml"
        )


def _reason(error: Exception) -> str:
    text = str(error) if isinstance(error, PySparkException) else str(getattr(error, "java_exception", error))
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__


def _end(gateway: Any) -> None:
    """End the JVM, which waits for its stdin to be closed. Another session of this process gets a new one."""
    SparkContext._gateway = SparkContext._jvm = None
    if gateway is None or gateway.proc is None:
        return
    gateway.shutdown()
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(_JVM_ENDS_SECONDS)
    except Exception:  # noqa: BLE001 - whatever it is: a JVM must not outlive the command
        gateway.proc.kill()
        gateway.proc.wait()
