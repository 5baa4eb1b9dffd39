"""Memory for the large answers that one server makes at the same time.

A request of a hundred bytes may ask for an answer of megabytes, and a peer may send a thousand of them at once. A
handler says beforehand how much its answer takes (`Handler.answer_bytes`). That is taken here before the handler
begins, and given back when the answer is written. A connection that gets none waits in line, and is not read meanwhile.

Small answers have a space and a line of their own: one does not wait until each of forty peers has had megabytes.
"""

import asyncio
from collections import OrderedDict
from typing import Final, Protocol

SMALL_PART: Final = 16  # of the whole space: a sixteenth more, for small answers
SMALL_AT_ONCE: Final = 64  # fit into their space at least: 64 kB each where the whole space is 64 MB


class Waiting(Protocol):
    """Called when there may be space: takes it, or lets its turn pass."""

    def go_on_if_possible(self) -> None: ...


class ReplyMemory:
    """The space of one server: one pool for large answers, one for small ones."""

    def __init__(self, bytes_max: int) -> None:
        self._large, self._small = _Pool(bytes_max), _Pool(bytes_max // SMALL_PART)
        self._small_max = bytes_max // SMALL_PART // SMALL_AT_ONCE

    @property
    def taken(self) -> int:
        """All bytes that were taken and not given back."""
        return self._large.taken + self._small.taken

    def take(self, size: int, owner: Waiting) -> bool:
        """Take *size* bytes and return True; or put *owner* in line to be called, and return False."""
        return self._pool(size).take(size, owner)

    def give_back(self, size: int) -> None:
        """Let the next in line have *size* bytes."""
        self._pool(size).give_back(size)

    def leave(self, owner: Waiting) -> None:
        """Forget *owner*, which wants nothing any more."""
        self._large.leave(owner)
        self._small.leave(owner)

    def _pool(self, size: int) -> "_Pool":
        return self._small if size <= self._small_max else self._large


class _Pool:
    """Invariant: `taken` is the sum of what was taken and not given back; it is over the limit only if that is one
    answer. Nothing overtakes the first in line, so that a large answer is not kept waiting by small ones.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.taken = 0
        self._line: OrderedDict[Waiting, None] = OrderedDict()
        self._offered: Waiting | None = None
        self._will_offer = False

    def take(self, size: int, owner: Waiting) -> bool:
        first = self._offered is owner
        if (self._line and not first) or (self.taken and self.taken + size > self._bytes_max):
            self._line[owner] = None
            if first:
                self._line.move_to_end(owner, last=False)
            return False
        self._line.pop(owner, None)
        self._offered = None  # what it wants next is for the end of the line
        self.taken += size
        return True

    def give_back(self, size: int) -> None:
        self.taken -= size
        self._offer_soon()

    def leave(self, owner: Waiting) -> None:
        if owner in self._line:
            del self._line[owner]
            self._offer_soon()

    def _offer_soon(self) -> None:
        if self._line and not self._will_offer:
            self._will_offer = True
            asyncio.get_running_loop().call_soon(self._offer)

    def _offer(self) -> None:
        """Call the first in line. One in a turn of the loop, as it may do all the work of its request at once."""
        self._will_offer = False
        if not self._line:
            return
        owner, _ = self._line.popitem(last=False)
        self._offered = owner
        try:
            owner.go_on_if_possible()
        finally:
            self._offered = None
        if owner not in self._line:  # it was served, or cannot go on for another reason; else it is still the first
            self._offer_soon()
