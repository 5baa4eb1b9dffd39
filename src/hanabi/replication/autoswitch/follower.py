"""One connection of a slave to its master in controller mode.

    hello ─► the master's epochs ─► cut the log to what both have ─► report ─► pieces ... heartbeats

The log is cut before the epochs are: after a crash in between, epochs behind its end are dropped at the start.
"""

import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from hanabi.errors import RemoteProtocolError, StoreError
from hanabi.replication.autoswitch.epochs import EpochFile, appended, common_end, cut, is_outdated
from hanabi.replication.autoswitch.wire import Hello, MasterEpochs, MasterParser, encode_hello, encode_report
from hanabi.replication.config import ReplicationConfig
from hanabi.replication.follower import Follower
from hanabi.replication.log_access import LogSink
from hanabi.replication.rules.verdicts import Refusal, RefusalKind
from hanabi.replication.wire import Piece


class CutLog(LogSink, Protocol):
    """Log of a slave whose end can be cut off."""

    @property
    def min_offset(self) -> int:
        """First available offset."""

    def cut_partial_record(self) -> None:
        """Remove the bytes behind the last whole record."""

    def truncate(self, offset: int) -> None:
        """Forget everything from *offset* on."""


class Replica(msgspec.Struct, frozen=True):
    """What a follower needs to know of its broker."""

    hello: Hello
    epochs: EpochFile
    on_cut: Callable[[], None]
    on_confirmed: Callable[[int], None]


class AutoSwitchFollower(Follower):
    """Follows one master over one connection."""

    def __init__(
        self, log: CutLog, config: ReplicationConfig, replica: Replica, now: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(log, config, now)
        self._log, self._replica = log, replica
        self._frames = MasterParser()
        self._confirmed = 0
        self._agrees = False  # with the master's log, up to our end

    def _greet(self) -> None:
        if self._transport is not None:
            self._transport.write(encode_hello(self._replica.hello))

    def _encoded_report(self) -> bytes:
        return encode_report(self._log.end_offset) if self._agrees else b""

    def _parse(self, data: memoryview) -> list[Piece]:
        pieces: list[Piece] = []
        epochs = self._replica.epochs
        for frame in self._frames.feed(data):
            if isinstance(frame, MasterEpochs):
                self._agree(frame)
                continue
            if not self._agrees:
                raise RemoteProtocolError("a piece before its epochs")
            if frame.epoch.number >= 0:
                epochs.use(appended(epochs.epochs, frame.epoch))
            self._confirmed = max(self._confirmed, frame.confirmed)
            pieces.append(Piece(frame.offset, frame.data))
        return pieces

    def _agree(self, masters: MasterEpochs) -> None:
        """Cut the log to what the master has, too, and report."""
        try:
            refusal = self._cut_to(masters)
        except StoreError as error:
            refusal = Refusal(RefusalKind.STORE, f"the log cannot be cut to what the master has: {error}")
        if refusal is not None:
            self._end(refusal)
            return
        self._agrees = True
        self._report()

    def _cut_to(self, masters: MasterEpochs) -> Refusal | None:
        log, epochs = self._log, self._replica.epochs
        log.cut_partial_record()
        own_end = log.end_offset
        if not epochs.epochs or not own_end:
            return None
        if is_outdated(masters.epochs, epochs.epochs, own_end):
            return Refusal(
                RefusalKind.DIVERGED,
                f"its newest epoch is {masters.epochs[-1].number}, and this log has epoch {epochs.last}: it was deposed"
                " and does not know it, or the controller's state was lost (hanabi controller status). Nothing is cut",
            )
        agreed = common_end(epochs.epochs, own_end, masters.epochs, masters.end_offset)
        if agreed is None or agreed < log.min_offset:
            return Refusal(
                RefusalKind.DIVERGED,
                f"this log (epochs {_shown(epochs.epochs)}) and the master's (epochs {_shown(masters.epochs)}) share"
                " nothing: stop this broker, move its store away, and let it copy the log again",
            )
        if agreed < own_end:
            log.truncate(agreed)
            epochs.use(cut(epochs.epochs, agreed))
            self._replica.on_cut()
        return None

    def _take(self, pieces: list[Piece]) -> Refusal | None:
        refusal = super()._take(pieces)
        if refusal is None:
            self._replica.on_confirmed(min(self._confirmed, self._log.end_offset))
        return refusal


def _shown(epochs: tuple[tuple[int, int], ...]) -> str:
    return ", ".join(f"{number} from {start}" for number, start in epochs[-5:]) or "none"
