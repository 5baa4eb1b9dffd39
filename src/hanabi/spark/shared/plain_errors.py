"""Errors in one sentence: what the user did wrong, without the stack of frames that Spark would put around it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from hanabi.errors import MQError


@contextmanager
def plain_errors() -> Iterator[None]:
    """What is raised on purpose inside reaches the user as its sentence alone.

    Spark's worker formats the error after us, and asks this variable how. The process ends with the error, so nobody
    else sees the variable.
    """
    try:
        yield
    except MQError as error:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise error from None
