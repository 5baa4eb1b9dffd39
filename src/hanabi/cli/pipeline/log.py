"""The log of Spark itself: a file that is kept if the user wants it, or if the run fails."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from hanabi.errors import ConfigError, MQError
from hanabi.spark.pipelines.contract import SparkFailed


@contextmanager
def spark_log(wanted: Path | None) -> Iterator[Path]:
    """Provide a file to write to. Without --log it is kept only if it may explain a failure."""
    if wanted is not None:
        try:
            wanted.open("ab").close()
        except OSError as error:
            raise ConfigError(f"--log {wanted} cannot be written: {error.strerror or error}") from error
        yield wanted
        return
    with tempfile.NamedTemporaryFile(prefix="hanabi-spark-", suffix=".log", delete=False) as made:
        log = Path(made.name)
    is_of_use = False
    try:
        yield log
    except Exception as error:
        says_it_all = isinstance(error, MQError) and not isinstance(error, SparkFailed)
        is_of_use = not says_it_all and log.stat().st_size > 0
        raise
    finally:
        if is_of_use:
            typer.echo(f"hanabi: Spark's log is {log}", err=True)
        else:
            log.unlink(missing_ok=True)
