"""Retries while a broker restarts or a connection is broken. Refused requests are not retried."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from hanabi.errors import MQError

T = TypeVar("T")

FIRST_WAIT_S: Final = 0.1
WAIT_S_MAX: Final = 2.0

logger = logging.getLogger(__name__)


async def patiently(ask: Callable[[], Awaitable[T]], seconds: float) -> T:
    """Return the result of *ask*. Retries for *seconds*, then raises the last error."""
    clock = asyncio.get_running_loop().time
    ends, wait = clock() + seconds, FIRST_WAIT_S
    while True:
        try:
            return await ask()
        except MQError as error:
            if not error.retriable or clock() + wait > ends:
                raise
            logger.warning("retrying in %.1f s: %s", wait, error)
        await asyncio.sleep(wait)
        wait = min(wait * 2, WAIT_S_MAX)
