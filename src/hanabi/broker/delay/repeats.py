"""Deliveries of the previous run that its last save does not cover: messages to skip, not to deliver again."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

from hanabi.broker.delay.delivered_since import Delivered
from hanabi.broker.delay.redelivery import identity
from hanabi.store.message_store import MessageStore
from hanabi.wire.message.record import Record

logger = logging.getLogger(__name__)


class Repeats:
    """Messages of *topic* that the previous run delivered after its last save.

    *find* finds them in the log from *log_offset* on; with None there are none. `last_ms` is the time of the last such
    delivery: later than now if the clock was set back since.
    """

    def __init__(
        self, topic: str, store: MessageStore, find: Callable[[MessageStore, int], Delivered], log_offset: int | None
    ) -> None:
        self._topic, self._store, self._find, self._log_offset = topic, store, find, log_offset
        self._identities: Counter[int] = Counter()
        self.last_ms = 0

    def __bool__(self) -> bool:
        """Return whether repeats may still come: some are left, or the log was not read yet."""
        return self._log_offset is not None or bool(self._identities)

    def look(self) -> None:
        """Read the log unless that is done. Blocks, possibly for minutes."""
        if self._log_offset is not None:
            self._remember(self._find(self._store, self._log_offset))

    async def look_in_thread(self) -> None:
        """Read the log in a thread unless that is done."""
        if self._log_offset is not None:
            self._remember(await asyncio.to_thread(self._find, self._store, self._log_offset))

    def _remember(self, delivered: Delivered) -> None:
        self._log_offset = None
        self._identities, self.last_ms = delivered
        if self._identities:
            logger.info("%s: %d messages were delivered after the last save", self._topic, self._identities.total())

    def skip(self, record: Record) -> bool:
        """Return whether *record* was delivered already. Each delivery counts once."""
        known = identity(record) if self._identities else None
        if known is None or known not in self._identities:
            return False
        self._identities[known] -= 1
        if not self._identities[known]:
            del self._identities[known]
        return True

    def forget(self) -> None:
        """Deliver everything from now on: later messages were not due before."""
        self._identities = Counter()
