"""What every measured program does: read a line, do what it says, answer with how many messages in how many seconds.

    send SECONDS TOPIC BODY_BYTES               one after the other, each when the last is stored
    concurrent SECONDS TOPIC BODY_BYTES DEPTH   so many under way at a time
    many SECONDS TOPIC BODY_BYTES DEPTH         the same, in one call for many messages
    batch SECONDS TOPIC BODY_BYTES SIZE         so many messages a request
    push TOPIC GROUP COUNT                      a listener gets so many of a backlog; timed from the first on
    pull TOPIC GROUP COUNT                      a program asks for them

Imports nothing but the standard library: the others run in environments of their own, where nothing of ours is.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping

Measured = tuple[int, float]  # messages, seconds


def serve(commands: Mapping[str, Callable[..., Measured]]) -> None:
    """Until stdin ends. The first line of the output says what can be asked for."""
    print("can", *commands, flush=True)
    for line in sys.stdin:
        name, *words = line.split()
        try:
            messages, seconds = commands[name](*words)
        except Exception as error:  # noqa: BLE001 - the report says so; the other rows go on
            print("failed", type(error).__name__, str(error).replace("\n", " ")[:300], flush=True)
        else:
            print("done", messages, f"{seconds:.6f}", flush=True)


def repeat(seconds: float, once: Callable[[], int]) -> Measured:
    """*once*, which says how many messages it sent, again and again for so long."""
    began = time.perf_counter()
    ends = began + seconds
    messages = 0
    while (now := time.perf_counter()) < ends:
        messages += once()
    return messages, now - began


class Arrivals:
    """Counts messages in any thread; knows when the first and the last came."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._lock = threading.Lock()
        self._count = 0
        self._first = self._last = 0.0
        self._all = threading.Event()

    def add(self, messages: int) -> None:
        with self._lock:
            if not self._count:
                self._first = time.perf_counter()
            self._count += messages
            if self._count >= self._wanted and not self._all.is_set():
                self._last = time.perf_counter()
                self._all.set()

    def wait(self, seconds: float = 30.0) -> Measured:
        if not self._all.wait(seconds):
            raise TimeoutError(f"{self._count} of {self._wanted} messages came in {seconds:.0f} s")
        return self._wanted, self._last - self._first
