"""Background sender of trace lines: batches them, and never blocks the traced work.

Adding a line costs an append. One task sends them: after half a second, or as soon as a message is full. Lines that do
not fit into the queue, or cannot be sent, are dropped and counted. Agrees with Java's AsyncTraceDispatcher in times and
sizes.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from hanabi.client.observe.trace_data import TraceLine
from hanabi.errors import MQError
from hanabi.message import Message

LINES_MAX: Final = 20_000
CHARACTERS_MAX: Final = 118_000  # of one message: Java's 128,000 minus a margin of 10,000
KEYS_CHARACTERS_MAX: Final = 24_000  # they are a property, and all properties of a message share 32,767 bytes
DELAY_S: Final = 0.5
CLOSE_S: Final = 5.0

logger = logging.getLogger(__name__)


class Dispatcher:
    """`start` it, `add` lines, `close` it. *send* gets one message at a time."""

    def __init__(self, topic: str, send: Callable[[Message], Awaitable[object]], *, lines_max: int = LINES_MAX) -> None:
        self.topic = topic
        self.dropped = 0  # lines that were lost
        self._send, self._lines_max = send, lines_max
        self._lines: deque[TraceLine] = deque()
        self._characters = 0  # of all pending lines
        self._wanted, self._full = asyncio.Event(), asyncio.Event()
        self._closing = False
        self._failing = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"traces to {self.topic}")

    def add(self, line: TraceLine) -> None:
        """Queue *line* for sending."""
        if len(self._lines) >= self._lines_max or self._closing:
            self.dropped += 1
            return
        self._lines.append(line)
        self._characters += len(line.text)
        self._wanted.set()
        if self._characters >= CHARACTERS_MAX:
            self._full.set()

    async def close(self, seconds: float | None = None) -> None:
        """Send pending lines, within *seconds*, and stop."""
        self._closing = True
        self._wanted.set()
        self._full.set()
        task, self._task = self._task, None
        if task is not None:
            await asyncio.wait((task,), timeout=CLOSE_S if seconds is None else seconds)
            task.cancel()
            await asyncio.wait((task,))
        self.dropped += len(self._lines)
        self._lines.clear()
        if self.dropped:
            logger.warning("%d lines of traces for %s were dropped", self.dropped, self.topic)

    async def _run(self) -> None:
        while not self._closing or self._lines:
            self._wanted.clear()
            if not self._lines and not self._closing:
                await self._wanted.wait()
            await self._gather()
            while self._lines:
                await self._send_some()
                if self._characters < CHARACTERS_MAX and not self._closing:
                    break

    async def _gather(self) -> None:
        """Wait briefly for more lines."""
        if self._closing or self._characters >= CHARACTERS_MAX:
            return
        self._full.clear()
        try:
            async with asyncio.timeout(DELAY_S):
                await self._full.wait()
        except TimeoutError:
            return

    async def _send_some(self) -> None:
        message, count = self._next()
        try:
            await self._send(message)
        except MQError as error:
            self.dropped += count
            level = logging.DEBUG if self._failing else logging.WARNING  # once per outage
            self._failing = True
            logger.log(level, "traces cannot be sent to %s, %d lines are dropped: %s", self.topic, count, error)
        except asyncio.CancelledError:
            self.dropped += count
            raise
        except Exception:
            self.dropped += count
            logger.exception("sending traces to %s failed with an internal error", self.topic)
        else:
            self._failing = False

    def _next(self) -> tuple[Message, int]:
        """Return as many lines as one message holds, and their number."""
        texts: list[str] = []
        keys: dict[str, None] = {}
        characters = keys_characters = 0
        while self._lines:
            line = self._lines[0]
            fresh = [key for key in line.keys if key not in keys]
            keys_characters += sum(len(key.encode()) + 1 for key in fresh)
            if texts and (characters + len(line.text) > CHARACTERS_MAX or keys_characters > KEYS_CHARACTERS_MAX):
                break
            self._lines.popleft()
            texts.append(line.text)
            characters += len(line.text)
            keys.update(dict.fromkeys(fresh))
        self._characters -= characters
        return Message(self.topic, "".join(texts).encode(), keys=list(keys)), len(texts)
