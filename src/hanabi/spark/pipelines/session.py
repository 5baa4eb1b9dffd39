"""Spark session of a pipeline. The JVM's output goes to a file, so that a terminal shows only our messages."""

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
    """Return all settings of a session: defaults, then the pipeline's, then the user's, which take precedence."""
    here = _ON_THIS_MACHINE if master.startswith("local") else {}
    named = {"spark.master": master, "spark.app.name": f"hanabi {name}"}
    return {**_ALWAYS, **here, **pipeline, **user, **named}


@contextmanager
def session(settings: Mapping[str, str], log: Path) -> Iterator[SparkSession]:
    """Provide a session with *settings*; stop it and its JVM afterwards.

    Raises ConfigError if a prerequisite is missing, SparkFailed if Spark does not start.
    """
    check_version(pyspark.__version__)
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise ConfigError("Spark needs Java 17 or newer, and there is none: install it, or set JAVA_HOME")
    _check_hadoop(settings["spark.master"], os.environ)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need this Python with this package, too
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
    """Raise ConfigError if YARN's settings are missing:

    Spark reports only that its JVM ended, the reason is in its log.
    """
    if master == "yarn" and not any(environment.get(name) for name in _HADOOP_SITES):
        raise ConfigError(
            "on YARN, HADOOP_CONF_DIR must name the directory with Hadoop's core-site.xml and yarn-site.xml"
        )


def _reason(error: Exception) -> str:
    text = str(error) if isinstance(error, PySparkException) else str(getattr(error, "java_exception", error))
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__


def _end(gateway: Any) -> None:
    """End the JVM, which waits for the end of its stdin. The next session of this process gets a new JVM."""
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
