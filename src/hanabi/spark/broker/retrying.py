"""Asking again while a broker is away: it restarts, or a connection broke. What it refuses is not asked again."""

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
    """Return what *ask* returns; tried again for so many *seconds*, and then its last error is raised."""
    clock = asyncio.get_running_loop().time
    ends, wait = clock() + seconds, FIRST_WAIT_S
    while True:
        try:
            return await ask()
        except MQError as error:
            if not error.retriable or clock() + wait > ends:
                raise
            logger.warning("trying again in %.1f s: %s", wait, error)
        await asyncio.sleep(wait)
        wait = min(wait * 2, WAIT_S_MAX)
