"""Parts of a server's process: its ready lines, the signals that end it, and the end of its parent."""

import asyncio
import logging
import os
import signal
import sys
import threading

logger = logging.getLogger(__name__)


def announce(line: str) -> None:
    """Print the ready line at once, also through a pipe. A closed stdout is no reason not to serve."""
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except OSError as error:
        logger.warning("%s (stdout cannot be written: %s)", line, error.strerror or error)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())  # what the stream still holds goes there, and not to an error at the exit
        os.close(null)


def stop_signal(*, with_stdin: bool = False) -> asyncio.Event:
    """Set by the first SIGTERM or SIGINT, and at the end of stdin if that is asked for."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(number, stopped.set)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stopped.set))
    if with_stdin:
        threading.Thread(target=_watch_stdin, args=(loop, stopped), name="hanabi-stdin", daemon=True).start()
    return stopped


def _watch_stdin(loop: asyncio.AbstractEventLoop, stopped: asyncio.Event) -> None:
    """Wait in a thread, since not every kind of stdin can be polled."""
    try:
        while os.read(0, 4096):
            pass
    except OSError as error:
        logger.warning("stdin cannot be read, and its end will not stop this server: %s", error.strerror or error)
        return
    if not loop.is_closed():
        logger.info("stdin has ended, and with it the program that started this server: stopping")
        loop.call_soon_threadsafe(stopped.set)
