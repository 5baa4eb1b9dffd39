"""Scans keep their pace, and never come right after the loop stood still."""

import asyncio
import heapq
from collections.abc import Callable
from contextvars import Context
from itertools import count
from typing import Any

import pytest

from hanabi.namesrv import scan_timer
from hanabi.namesrv.scan_timer import ScanTimer


class StillLoop(asyncio.SelectorEventLoop):
    """A loop whose clock moves only when a test moves it, and which runs what is then due."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()

    def time(self) -> float:
        return self.now

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self.due, (when, next(self._numbers), lambda: handle.cancelled() or callback(*args)))
        return handle

    def pass_time(self, seconds: float) -> None:
        """Let *seconds* pass, with every timer on time."""
        end = self.now + seconds
        while self.due and self.due[0][0] <= end:
            self.now = max(self.now, self.due[0][0])
            heapq.heappop(self.due)[2]()
        self.now = end

    def stand_still(self, seconds: float) -> None:
        """Let *seconds* pass, and run only then what was due."""
        self.now += seconds
        self.pass_time(0)


def scanning(story: Callable[[StillLoop, ScanTimer, list[float]], None]) -> None:
    """Tell *story* with a timer of ten seconds, and the list of the times at which it scanned."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, StillLoop)
        scans: list[float] = []
        timer = ScanTimer(lambda: scans.append(loop.now - 1000), 10.0)
        timer.start()
        story(loop, timer, scans)

    with asyncio.Runner(loop_factory=StillLoop) as runner:
        runner.run(main())


def test_scans_keep_their_pace() -> None:
    def story(loop: StillLoop, timer: ScanTimer, scans: list[float]) -> None:
        loop.pass_time(35)
        assert scans == [10, 20, 30]
        timer.cancel()
        loop.pass_time(35)
        assert scans == [10, 20, 30]

    scanning(story)


@pytest.mark.parametrize("before", [5.0, 8.5, 9.5])
def test_after_a_stall_the_scan_waits_for_a_second_in_which_the_loop_was_on_time(before: float) -> None:
    def story(loop: StillLoop, timer: ScanTimer, scans: list[float]) -> None:
        loop.pass_time(before)
        loop.stand_still(15)
        assert scans == []
        loop.pass_time(1)
        assert scans == [before + 16]
        loop.pass_time(10)
        assert scans == [before + 16, before + 26]

    scanning(story)


def test_a_loop_that_is_always_late_does_not_keep_the_dead_for_ever() -> None:
    def story(loop: StillLoop, timer: ScanTimer, scans: list[float]) -> None:
        loop.pass_time(9)
        for _ in range(scan_timer.POSTPONED_MAX):
            loop.stand_still(5)
            assert scans == []
        loop.stand_still(5)
        assert len(scans) == 1

    scanning(story)


def test_a_scan_that_fails_is_not_the_last() -> None:
    def fail() -> None:
        fails.append(None)
        raise ZeroDivisionError

    fails: list[None] = []

    def story(loop: StillLoop, steady: ScanTimer, scans: list[float]) -> None:
        steady.cancel()
        ScanTimer(fail, 10.0).start()
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                loop.pass_time(11)
        assert len(fails) == 2

    scanning(story)
