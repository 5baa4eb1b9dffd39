"""A supervised process: started again, heard, stopped."""

import asyncio
import os
import signal
import sys

import pytest

from hanabi.supervision.child import Child, Outlet, StartFailed
from hanabi.supervision.lines import ending, named
from hanabi.testing.waiting import eventually

READY_AND_WAIT = "import sys, time; print('ready it', flush=True); print('a line', file=sys.stderr); time.sleep(120)"
REFUSED = "import sys; sys.exit(print('hanabi: the port is taken', file=sys.stderr) or 2)"


class Heard:
    """The output of a process."""

    def __init__(self) -> None:
        self.ready: list[str] = []
        self.lines: list[tuple[str, str]] = []
        self.outlet = Outlet(self.ready.append, lambda name, line: self.lines.append((name, line)))

    def child(self, program: str) -> Child:
        return Child("it", [sys.executable, "-c", program], self.outlet)


async def test_a_killed_process_is_started_again_and_a_stopped_one_is_not() -> None:
    heard = Heard()
    child = heard.child(READY_AND_WAIT)
    child.start()
    assert await child.until_ready() == "ready it"
    first = child.pid
    assert first is not None
    await eventually(lambda: heard.lines == [("it", "a line")])
    os.kill(first, signal.SIGKILL)
    await eventually(lambda: heard.ready == ["ready it", "ready it"])
    second = child.pid
    assert second not in (None, first)
    assert child.restarts == 1
    await eventually(lambda: heard.lines == [("it", "a line")] * 2)
    await child.stop()
    assert child.pid is None
    assert len(heard.ready) == 2


async def test_a_refused_start_is_told_in_the_words_of_the_process(caplog: pytest.LogCaptureFixture) -> None:
    heard = Heard()
    child = heard.child(REFUSED)
    child.start()
    with pytest.raises(StartFailed, match=r"^the port is taken$"):
        await child.until_ready()
    await eventually(lambda: child.restarts > 0)
    await child.stop()
    assert "it ended with exit code 2 (the port is taken); started again in 0.5 s" in caplog.text


async def test_a_program_that_does_not_exist_is_a_failed_start() -> None:
    child = Child("it", ["/nonexistent/program"], Heard().outlet)
    child.start()
    with pytest.raises(StartFailed, match="could not be started: No such file"):
        await child.until_ready()
    await child.stop()


async def test_a_process_that_ignores_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hanabi.supervision.child.STOP_SECONDS", 0.2)
    heard = Heard()
    child = heard.child(f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {READY_AND_WAIT}")
    child.start()
    await child.until_ready()
    async with asyncio.timeout(60):
        await child.stop()
    assert child.pid is None


async def test_a_stop_before_the_start_is_over_ends_the_process() -> None:
    heard = Heard()
    child = heard.child(READY_AND_WAIT)
    child.start()
    async with asyncio.timeout(60):
        await child.stop()
    assert child.pid is None
    with pytest.raises(StartFailed, match="stopped before it was ready"):
        await child.until_ready()


def test_a_log_line_has_the_name_of_its_server_also_as_json() -> None:
    assert named("broker-a:0", "2026 INFO x: y") == "[broker-a:0] 2026 INFO x: y"
    assert named("broker-a:0", '{"time":"t"}') == '{"server":"broker-a:0","time":"t"}'


def test_an_end_is_told_in_words() -> None:
    assert (ending(-9), ending(2)) == ("was killed by signal 9", "ended with exit code 2")
