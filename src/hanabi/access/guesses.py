"""Delays of answers to wrong signatures: the more there were, from an address or for an account, the later the answer.

    the first ten         at once
    the next ones         0.1 s, 0.2 s, 0.4 s ... up to the longest delay
    too many at once      of one address: its connection is closed without an answer

Only wrong requests are delayed, and the connections that they come by: an account that is under attack works for its
owner, from each address. A minute without a wrong signature ends it. The tables are bounded; the entry that was not
used for the longest time is dropped first.
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from hanabi.errors import NoPermission
from hanabi.remoting.connection.dispatch import Reply

if TYPE_CHECKING:
    from hanabi.remoting.connection.protocol import Connection

FREE: Final = 10  # wrong signatures that are answered at once
FIRST_SECONDS: Final = 0.1
FORGET_SECONDS: Final = 60.0
KNOWN_MAX: Final = 10_000  # of each table
WAITING_MAX: Final = 100  # answers to one address


class Failures:
    """Wrong signatures by key. *clock* is in seconds and never goes back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: OrderedDict[str, tuple[int, float]] = OrderedDict()  # how many, and when the last one was

    def __len__(self) -> int:
        return len(self._known)

    def failed(self, key: str) -> int:
        """Count one more; return how many there were without a pause."""
        now = self._clock()
        count, last = self._known.pop(key, (0, now))
        count = count + 1 if now - last < FORGET_SECONDS else 1
        if len(self._known) >= KNOWN_MAX:
            self._known.popitem(last=False)
        self._known[key] = count, now
        return count


def delay_seconds(failures: int, longest: float) -> float:
    """Return how long the answer to the last of *failures* waits."""
    beyond = failures - FREE
    return min(FIRST_SECONDS * 2 ** min(beyond - 1, 30), longest) if beyond > 0 else 0.0


class Guesses:
    """Wrong signatures of one server. `delayed` and `closed` count what was done about them."""

    def __init__(self, longest_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._longest = longest_seconds
        self.addresses, self.accounts = Failures(clock), Failures(clock)
        self._waiting: Counter[str] = Counter()  # answers by address
        self.delayed = self.closed = 0

    def failed(self, host: str, account: str | None) -> float:
        """Count a wrong signature; return how many seconds its answer waits."""
        failures = max(self.addresses.failed(host), self.accounts.failed(account) if account else 0)
        return delay_seconds(failures, self._longest)

    def wait(self, host: str, seconds: float) -> bool:
        """Count an answer to *host* that waits for *seconds*, also if its client is gone before. Return False if too
        many wait: the caller closes the connection."""
        if self._waiting[host] >= WAITING_MAX:
            self.closed += 1
            return False
        self.delayed += 1
        self._waiting[host] += 1
        asyncio.get_running_loop().call_later(seconds, self._ended, host)
        return True

    def answer(
        self, error: NoPermission, host: str, account: str | None, connection: "Connection"
    ) -> asyncio.Future[Reply]:
        """Return the answer to a request whose identity is wrong, which comes later. Raise *error* for one at once."""
        seconds = self.failed(host, account)
        if seconds <= 0:
            raise error
        if self._waiting[host] >= WAITING_MAX:
            self.closed += 1
            connection.drop(f"{WAITING_MAX} wrong signatures of {host} wait for their answers already")
            raise error
        self.delayed += 1
        self._waiting[host] += 1
        connection.hold(seconds)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Reply] = loop.create_future()
        answer.add_done_callback(partial(self._answered, host))
        loop.call_later(seconds, _settle, answer, error)
        return answer

    def _answered(self, host: str, _: asyncio.Future[Reply]) -> None:
        self._ended(host)

    def _ended(self, host: str) -> None:
        self._waiting[host] -= 1
        if not self._waiting[host]:
            del self._waiting[host]


def _settle(answer: asyncio.Future[Reply], error: NoPermission) -> None:
    if not answer.done():  # else the connection has gone
        answer.set_result(Reply(error.code, str(error)))
