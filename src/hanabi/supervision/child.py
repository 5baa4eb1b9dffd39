"""A supervised process: its starts, its output, its end.

    child = Child("broker-a:0", command, outlet)
    child.start()
    line = await child.until_ready()      # raises StartFailed if its first life ends before
    await child.stop()

The process has a session of its own, so Ctrl-C at the supervisor's terminal does not reach it, and stdin is a pipe:
with `--with-stdin` it ends by itself when the supervisor is killed.
"""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from hanabi.errors import ConfigError
from hanabi.supervision.back_off import failures_after, pause_seconds
from hanabi.supervision.lines import LAST_WORDS, READY, ending, is_sentence

STOP_SECONDS: Final = 60.0  # as the units in deploy/ give a broker to flush and say goodbye
LINE_BYTES_MAX: Final = 1 << 20

logger = logging.getLogger(__name__)


class StartFailed(ConfigError):
    """A process that ended before it was ready. The text is its own sentence."""


class Outlet:
    """Receivers of a process's output: of its ready lines, and of all other lines."""

    def __init__(self, announce: Callable[[str], None], log: Callable[[str, str], None]) -> None:
        self.announce, self.log = announce, log


class Child:
    """One process under supervision, from `start` to `stop`."""

    def __init__(
        self, name: str, command: Sequence[str], outlet: Outlet, *, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self._command, self._outlet = list(command), outlet
        self._environment = {**os.environ, **(environment or {})}
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()
        self._living: asyncio.Task[None] | None = None
        self._first: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._sentence = ""
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        """Return the process id of the present life; None between two lives."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    def start(self) -> None:
        """Begin to supervise."""
        self._living = asyncio.create_task(self._live())

    async def until_ready(self) -> str:
        """Return the first ready line. Raise StartFailed if the first life ends without one."""
        return await asyncio.shield(self._first)

    async def stop(self) -> None:
        """Ask the process to stop, wait, and end it at last; it is not started again."""
        self._stopping.set()
        if self._living is None:
            return
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await asyncio.shield(self._living)
        except TimeoutError:
            logger.error("%s did not stop in %g s after SIGTERM: it is killed", self.name, STOP_SECONDS)
            self._signal(signal.SIGKILL)
            await self._living
        self._living = None

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def _live(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            self._sentence = ""
            how = await self._one_life()
            if self._stopping.is_set():
                break
            reason = self._sentence or how
            if not self._first.done():
                self._first.set_exception(StartFailed(reason))
                self._first.exception()  # a start in the background: the line below tells it
            failures = failures_after(failures, time.monotonic() - began)
            pause = pause_seconds(failures)
            logger.error("%s %s%s; started again in %g s", self.name, how, _colon(self._sentence), pause)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
            self.restarts += 1
        if not self._first.done():
            self._first.set_exception(StartFailed(f"{self.name} was stopped before it was ready"))
            self._first.exception()

    async def _one_life(self) -> str:
        """Run the process to its end; return how it ended."""
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env=self._environment,
                limit=LINE_BYTES_MAX,
                start_new_session=True,
            )
        except OSError as error:
            return f"could not be started: {error.strerror or error}"
        self._process = process
        logger.info("%s is process %d", self.name, process.pid)
        if self._stopping.is_set():  # while it was started
            self._signal(signal.SIGTERM)
        streams = [stream for stream in (process.stdout, process.stderr) if stream is not None]
        await asyncio.gather(*map(self._relay, streams))
        return ending(await process.wait())

    async def _relay(self, stream: asyncio.StreamReader) -> None:
        while True:
            try:
                raw = await stream.readline()
            except ValueError:  # a line beyond the limit: its rest follows as a line of its own
                continue
            if not raw:
                return
            self._heard(raw.decode(errors="replace").rstrip("\n"))

    def _heard(self, line: str) -> None:
        if line.startswith(READY):
            self._outlet.announce(line)
            if not self._first.done():
                self._first.set_result(line)
            return
        if is_sentence(line):
            self._sentence = line.removeprefix(LAST_WORDS)
        self._outlet.log(self.name, line)


def _colon(sentence: str) -> str:
    return f" ({sentence})" if sentence else ""
