"""Answers of the cluster, shared by all browsers: each question is asked once at a time, and its answer kept a while.

A question that takes too long does not hold the page: the page gets the last answer, marked old, or the reason why
there is none. The question goes on within its own limit, so a later page has the answer.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

import msgspec

from hanabi.errors import MQError

ENTRIES_MAX: Final = 4_000
AT_ONCE: Final = 8  # questions, of all browsers together
QUESTION_SECONDS: Final = 20.0  # a question to all brokers of a large cluster

T = TypeVar("T")


class Known(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """An answer: its value and age, or the reason why there is none. `problem` with a value: the value is old."""

    value: T | None = None
    at_ms: int = 0
    problem: str | None = None

    @property
    def is_old(self) -> bool:
        return self.value is not None and self.problem is not None


class _Entry:
    def __init__(self) -> None:
        self.known: Known[Any] = Known(problem="not asked yet")
        self.asking: asyncio.Task[None] | None = None


class Collector:
    """Questions to the cluster, bounded in number and in time."""

    def __init__(self, now_ms: Callable[[], int], page_seconds: float, gate: asyncio.Semaphore | None = None) -> None:
        self._now_ms, self._page_seconds = now_ms, page_seconds
        self._entries: OrderedDict[tuple[str, ...], _Entry] = OrderedDict()
        self.gate = gate or asyncio.Semaphore(AT_ONCE)  # shared by the collectors of all accounts

    def __len__(self) -> int:
        return len(self._entries)

    async def ask(
        self, key: tuple[str, ...], question: Callable[[], Awaitable[T]], *, fresh_s: float = 5.0
    ) -> Known[T]:
        """Return the answer to *question*, at most *fresh_s* old if the cluster answers in time."""
        entry = self._entry(key)
        known: Known[T] = entry.known
        if known.problem is None and self._now_ms() - known.at_ms < fresh_s * 1000:
            return known
        if entry.asking is None:
            entry.asking = asyncio.create_task(self._answer(entry, question))
        done, _ = await asyncio.wait({entry.asking}, timeout=self._page_seconds)
        if done:
            return entry.known
        late = f"no answer within {self._page_seconds:g} s"
        return msgspec.structs.replace(entry.known, problem=late)

    def forget(self, *prefix: str) -> None:
        """Forget answers whose key begins with *prefix*: something changed them."""
        for key in [key for key in self._entries if key[: len(prefix)] == prefix]:
            if self._entries[key].asking is None:
                del self._entries[key]
            else:
                self._entries[key].known = msgspec.structs.replace(self._entries[key].known, at_ms=0)

    async def close(self) -> None:
        """Cancel the questions that are under way."""
        tasks = [entry.asking for entry in self._entries.values() if entry.asking is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _entry(self, key: tuple[str, ...]) -> _Entry:
        entry = self._entries.setdefault(key, _Entry())
        self._entries.move_to_end(key)
        if len(self._entries) > ENTRIES_MAX:
            oldest = next((other for other, each in self._entries.items() if each.asking is None), None)
            if oldest is not None:
                del self._entries[oldest]
        return entry

    async def _answer(self, entry: _Entry, question: Callable[[], Awaitable[T]]) -> None:
        try:
            async with self.gate, asyncio.timeout(QUESTION_SECONDS):
                entry.known = Known(value=await question(), at_ms=self._now_ms())
        except MQError as error:
            entry.known = msgspec.structs.replace(entry.known, problem=str(error))
        except TimeoutError:
            entry.known = msgspec.structs.replace(entry.known, problem=f"no answer within {QUESTION_SECONDS:g} s")
        finally:
            entry.asking = None
