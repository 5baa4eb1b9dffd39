"""Promises that are checked at every step of a simulation; a broken one is a `Broken` that says which.

1. An acknowledged message is in the log of every later master.
2. One master at most acknowledges in an epoch.
3. What readers saw stays: no reader sees other bytes there, and no running broker takes a visible message back.
4. The logs of replicas in sync agree up to the confirm offset.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hanabi.store.read.queue_reader import NO_LIMIT
from tests.simulation.logs import RECORD_BYTES

if TYPE_CHECKING:
    from tests.simulation.brokers import SimBroker

HISTORY_MAX = 400


class Broken(AssertionError):
    """A promise does not hold."""


class Checks:
    """All that was promised so far in one run."""

    def __init__(self) -> None:
        self.history: deque[str] = deque(maxlen=HISTORY_MAX)
        self.brokers: list[SimBroker] = []
        self.acked: dict[bytes, int] = {}  # record -> its end in the log
        self.acked_end = 0
        self._master_of: dict[int, int] = {}  # epoch -> the broker that acknowledged in it
        self._read = bytearray()
        self._seen: dict[int, int] = {}  # broker -> up to where readers saw its log in this life of it
        self.failure: Broken | None = None

    def note(self, text: str) -> None:
        self.history.append(f"{asyncio.get_running_loop().time():9.3f}  {text}")

    def broken(self, text: str) -> None:
        self.note(f"BROKEN: {text}")
        self.failure = self.failure or Broken(text)

    # What happens

    def started(self, broker: "SimBroker") -> None:
        self._seen[broker.number] = 0
        self.note(f"{broker.number} starts, its log ends at {broker.log.end_offset}, {broker.epochs.epochs[-3:]}")

    def stored(self, broker: "SimBroker", record: bytes, end: int) -> None:
        self.readable(broker)

    def acknowledged(self, broker: "SimBroker", record: bytes, end: int, epoch: int) -> None:
        """Note that a producer was told that *record* is safe."""
        if self._master_of.setdefault(epoch, broker.number) != broker.number:
            self.broken(f"{self._master_of[epoch]} and {broker.number} acknowledge in epoch {epoch}")
        self.acked[record] = end
        self.acked_end = max(self.acked_end, end)
        for other in self.brokers:
            if other.is_serving and other.epochs.last > epoch and not _has(other, record, end):
                self.broken(f"{broker.number} acknowledges {end} in epoch {epoch}, but {other.number} lacks it")

    def took_over(self, broker: "SimBroker") -> None:
        """Check a new master."""
        for record, end in self.acked.items():
            if not _has(broker, record, end):
                self.broken(f"{broker.number} is master of epoch {broker.epochs.last} without the acknowledged {end}")
                return

    def readable(self, broker: "SimBroker") -> None:
        """Check what readers of *broker* see now."""
        log = broker.log.data
        visible = min(broker.limit, len(log)) // RECORD_BYTES * RECORD_BYTES
        seen = self._seen[broker.number]
        if visible < seen:
            self.broken(f"readers of {broker.number} saw {seen} bytes and see {visible}")
            self._seen[broker.number] = visible
            return
        known = min(visible, len(self._read))
        if log[seen:known] != self._read[seen:known]:
            self.broken(f"readers of {broker.number} see other messages between {seen} and {known} than before")
        self._read += log[len(self._read) : visible]
        self._seen[broker.number] = visible

    def in_sync(self, master: "SimBroker", members: "Iterable[SimBroker]") -> None:
        """Compare the logs of the replicas in sync."""
        if master.limit == NO_LIMIT:
            return
        confirmed = min(master.limit, master.log.end_offset)
        for member in members:
            if not member.is_lossy and member.log.data[:confirmed] != master.log.data[:confirmed]:
                self.broken(f"{member.number} is in sync, but lacks a part of the confirmed {confirmed} bytes")

    def at_end(self) -> None:
        """Check the logs when all faults are over."""
        logs = {bytes(broker.log.data) for broker in self.brokers}
        if len(logs) != 1:
            self.broken("the logs differ in the end")
        log = next(iter(logs))
        lost = [end for record, end in self.acked.items() if log[end - RECORD_BYTES : end] != record]
        if lost:
            self.broken(f"{len(lost)} acknowledged messages are lost, the first at {min(lost)}")
        if not log.startswith(bytes(self._read)):
            self.broken("messages that were read are lost")


def _has(broker: "SimBroker", record: bytes, end: int) -> bool:
    return broker.log.data[end - RECORD_BYTES : end] == record
