"""Progress of a measurement on stderr: a line a second. Ctrl-C ends the measurement and loses nothing.

With --json and without a terminal only errors are printed: the rest is in the JSON.
"""

import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from hanabi.bench.preparation import BenchTopic
    from hanabi.bench.results import Second

SIGNALS = (signal.SIGINT, signal.SIGTERM)
AGAIN_SECONDS = 1.0


class Progress:
    """Tells what will be done, what was made, and what was measured in the last second."""

    def __init__(self, *, as_json: bool) -> None:
        self._shown = not as_json or sys.stderr.isatty()

    def show(self, sentence: str) -> None:
        if self._shown:
            typer.echo(sentence, err=True)

    def warn(self, sentence: str) -> None:
        typer.echo(f"hanabi: {sentence}", err=True)

    def show_topic(self, topic: "BenchTopic") -> None:
        where = f"{topic.queues} queues on {', '.join(topic.brokers)}"
        if topic.created:
            self.show(f"made topic {topic.topic}, {where}; it stays: hanabi topic delete {topic.topic} removes it")
        else:
            self.show(f"topic {topic.topic}, {where}")

    def second(self, second: "Second") -> None:
        failed = f", {second.failed} failed" if second.failed else ""
        self.show(
            f"{second.at_seconds:6.1f} s  {second.what} {second.messages_per_second:,.0f}/s,"
            f" {second.megabytes_per_second:.1f} MB/s, p99 {second.p99_ms:.2f} ms{failed}"
        )


class Stopped:
    """The signal that came, if any."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self._number: signal.Signals | None = None

    def signalled(self, number: signal.Signals) -> None:
        self._number = number
        self.event.set()

    @property
    def exit_code(self) -> int:
        """As shells say it: 130 for Ctrl-C; 0 if none came."""
        return 0 if self._number is None else 128 + self._number


@contextmanager
def stop_signals(stopped: Stopped) -> Iterator[None]:
    """Pass SIGINT and SIGTERM to *stopped* meanwhile. A second one, at least AGAIN_SECONDS later, has its usual effect.
    An earlier one counts as the same: `timeout` sends it to a process and once more to its group."""
    loop = asyncio.get_running_loop()

    def signalled(number: signal.Signals) -> None:
        if not stopped.event.is_set():
            stopped.signalled(number)
            loop.call_later(AGAIN_SECONDS, forget)

    def forget() -> None:
        for number in SIGNALS:
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.remove_signal_handler(number)

    for number in SIGNALS:
        with suppress(NotImplementedError, RuntimeError, ValueError):  # Windows: there, KeyboardInterrupt ends it
            loop.add_signal_handler(number, signalled, number)
    try:
        yield
    finally:
        if not stopped.event.is_set():
            forget()
