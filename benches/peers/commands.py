"""Loop of every measured program: read a line, do what it says, answer with how many messages in how many seconds.

    send SECONDS TOPIC BODY_BYTES               one after the other, each when the last is stored
    concurrent SECONDS TOPIC BODY_BYTES DEPTH   so many under way at a time
    many SECONDS TOPIC BODY_BYTES DEPTH         the same, in one call for many messages
    batch SECONDS TOPIC BODY_BYTES SIZE         so many messages a request
    push SECONDS TOPIC GROUP COUNT SIZE         a listener gets so many of a backlog, SIZE a call at most
    push_one SECONDS TOPIC GROUP COUNT          the same, one a call
    push_async SECONDS TOPIC GROUP COUNT SIZE   as push, with an `async def` listener
    pull SECONDS TOPIC GROUP COUNT              a program asks for them

Consuming is timed from the first message on and ends with the last or after so many seconds. It reads every body: no
library is to look quicker because it leaves that for later.

Imports nothing but the standard library: the others run in environments of their own, where nothing of ours is.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence

FIRST_TIMEOUT_S, STALL_TIMEOUT_S = 15, 10

Measured = tuple[int, float]  # messages, seconds


def serve(commands: Mapping[str, Callable[..., Measured]]) -> None:
    """Wait until stdin ends. The first line of the output says what can be asked for."""
    print("can", *commands, flush=True)
    for line in sys.stdin:
        name, *words = line.split()
        try:
            messages, seconds = commands[name](*words)
        except Exception as error:  # noqa: BLE001 - the report says so; the other rows go on
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
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
    """Counts messages in any thread: how many came in how many seconds after the first."""

    def __init__(self, wanted: str, seconds: str) -> None:
        self._wanted, self._seconds = int(wanted), float(seconds)
        self._lock = threading.Lock()
        self._count = 0
        self._first = self._last = 0.0
        self._first_came, self._done = threading.Event(), threading.Event()

    def add(self, bodies: Sequence[bytes]) -> None:
        if not all(bodies):
            raise ValueError("a message came without its body")
        with self._lock:
            if self._done.is_set():
                return
            now = time.perf_counter()
            if not self._count:
                self._first = now
                self._first_came.set()
            self._count += len(bodies)
            if self._count >= self._wanted or now > self._first + self._seconds:
                self._last = now
                self._done.set()

    def wait(self) -> Measured:
        """Return when all have come or the time is over."""
        if not self._first_came.wait(FIRST_TIMEOUT_S):
            raise TimeoutError(f"no message came in {FIRST_TIMEOUT_S} s")
        if not self._done.wait(self._seconds + STALL_TIMEOUT_S):
            raise TimeoutError(f"{self._count} of {self._wanted} messages came, then none for {STALL_TIMEOUT_S} s")
        return self._count, self._last - self._first

    @property
    def done(self) -> bool:
        return self._done.is_set()
