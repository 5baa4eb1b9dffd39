"""One-sentence errors: the user's mistake, without Spark's stack trace."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from hanabi.errors import MQError


@contextmanager
def plain_errors() -> Iterator[None]:
    """Show the user only the sentence of an error that is raised on purpose inside.

    Spark's worker formats the error after us and reads the format from this variable. The process ends with the error,
    so the change has no other effect.
    """
    try:
        yield
    except MQError as error:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise error from None
