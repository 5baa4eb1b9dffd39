"""Spark's errors in one sentence: our own error found inside Spark's message, or the first line of Spark's error."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from hanabi import errors
from hanabi.errors import ConfigError, MQError
from hanabi.spark.pipelines.contract import SparkFailed
from hanabi.spark.shared.data_loss import DataLost

_KINDS: Final = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, MQError)
} | {DataLost.__name__: DataLost}
_OURS: Final = re.compile(rf"\b({'|'.join(_KINDS)}): (.+)")
_ON_DAMAGE: Final = re.compile(r"\(option onDamage: \"skip\" leaves such (\w+) out.*?\)")  # a hint of the sources
_CODE: Final = re.compile(r"^\[[A-Z0-9_.]+\] |\s*SQLSTATE: \w+.*$")


@contextmanager
def plain_spark_errors() -> Iterator[None]:
    """Convert Spark's errors to a ConfigError if an option is wrong, else to an MQError."""
    try:
        yield
    except PySparkException as error:
        raise in_one_sentence(error) from error
    except Py4JJavaError as error:  # RDDs raise the JVM's error unchanged
        raise in_one_sentence(str(error.java_exception)) from error


def in_one_sentence(error: PySparkException | str) -> MQError:
    """Return the error to show for *error*, an exception or its text."""
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        name, told = ours[0]
        sentence = _ON_DAMAGE.sub(r"(--on-damage skip leaves such \1 out)", told.strip())
        return ConfigError(sentence) if issubclass(_KINDS[name], ConfigError) else MQError(sentence)
    return SparkFailed(f"Spark: {first_line(text)}")


def first_line(text: str) -> str:
    """Return the first line of Spark's text, without its error codes."""
    line = next((line for line in text.splitlines() if line.strip()), "it failed without a word")
    return _CODE.sub("", _CODE.sub("", line)).strip()
