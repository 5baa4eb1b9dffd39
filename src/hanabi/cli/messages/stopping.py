"""The end of a command that runs until a signal: SIGINT (Ctrl-C) or SIGTERM."""

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any


async def until(stopped: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Do *work*, and give it up when *stopped* is set, whatever it waits for."""
    doing, stopping = asyncio.create_task(work), asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait((doing, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        doing.cancel()  # nothing happens to what is done
        await asyncio.wait((doing,))
    if not doing.cancelled():
        doing.result()


@contextmanager
def stop_signals() -> Iterator[asyncio.Event]:
    """Set the event on SIGINT and SIGTERM."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    caught: list[signal.Signals] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # Windows: there, KeyboardInterrupt ends it
            loop.add_signal_handler(number, stopped.set)
            caught.append(number)
    try:
        yield stopped
    finally:
        for number in caught:
            loop.remove_signal_handler(number)
