"""One connection of a slave to its master: reports what it holds, and appends what it receives.

All pieces of one read are appended together, from the buffer that the socket was read into: one copy, one dispatch and
one report for each read.

Differs from Apache's HAClient on purpose: it reports at once and not after five seconds, compares the end of its log
with the master's (`overlap`), refuses a heartbeat whose offset is not its own, checks that each append succeeded, and
detects a silent master.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final, cast

from hanabi.errors import LogDiverged, RemoteProtocolError, StoreError
from hanabi.replication.config import ReplicationConfig
from hanabi.replication.log_access import LogSink
from hanabi.replication.overlap import Overlap
from hanabi.replication.rules.verdicts import COMPARE, Refusal, RefusalKind, check_piece
from hanabi.replication.sender import STALL_SECONDS
from hanabi.replication.wire import Piece, PieceParser, encode_report

READ_BYTES_MAX: Final = 256 << 10


class Follower(asyncio.BufferedProtocol):
    """Follows one master over one connection. `ended` is done when that is over: a refusal, or None if it was lost."""

    def __init__(
        self,
        sink: LogSink,
        config: ReplicationConfig,
        now: Callable[[], float] = time.monotonic,
        *,
        compares: bool = True,
    ) -> None:
        """*compares*: append nothing before the master has shown that it has the end of this log."""
        self._sink, self._config, self._now, self._compares = sink, config, now, compares
        self._overlap: Overlap | None = None  # while the logs are compared
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[Refusal | None] = self._loop.create_future()
        self.error: Exception | None = None  # the cause of a lost connection, if known
        self.received_bytes = 0
        self.heard_at = self.wrote_at = now()
        self._transport: asyncio.Transport | None = None
        self._pieces, self._buffer = PieceParser(), memoryview(bytearray(READ_BYTES_MAX))
        self._is_paused = False
        self._watch: asyncio.TimerHandle | None = None

    # Callbacks of the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.heard_at = self._now()
        self._greet()
        self._watch_from(self._now())

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        if self._transport is None:
            return
        self.heard_at = self._now()
        try:
            pieces = self._parse(self._buffer[:size])
        except RemoteProtocolError as error:
            self._end(Refusal(RefusalKind.NOT_A_MASTER, f"it sends {error}: it is no master of this protocol"))
            return
        if not pieces:
            return
        refusal = self._take(pieces)
        if refusal is not None:
            self._end(refusal)
        else:
            self._report()  # one report for all pieces of a read; also for a heartbeat, which may ask for it

    @property
    def is_compared(self) -> bool:
        """Return whether the master is known to have the end of this log."""
        return self._overlap is None

    def _greet(self) -> None:
        """Ask for the end of the log, which is compared, and for all that follows."""
        overlap = Overlap(self._sink)
        self._overlap = overlap if self._compares and not overlap.is_over else None
        self._report()

    def _parse(self, data: memoryview) -> list[Piece]:
        """Return the pieces in *data*. Raise RemoteProtocolError if no master sends it."""
        return [*self._pieces.feed(data)]

    def _encoded_report(self) -> bytes:
        return encode_report(self._sink.end_offset if self._overlap is None else self._overlap.position)

    def _take(self, pieces: list[Piece]) -> Refusal | None:
        """Append pieces that continue the log; return the reason if one of them cannot be appended."""
        if self._overlap is not None:
            found = self._overlap.compare(pieces)
            if isinstance(found, Refusal):
                return found
            if not self._overlap.is_over:
                return None
            self._overlap, pieces = None, found
        start = end = self._sink.end_offset
        fitting: list[memoryview] = []
        refusal = None
        for offset, data in pieces:
            refusal = check_piece(offset, len(data), own_end=end, file_bytes=self._sink.file_bytes)
            if refusal is not None:
                break
            if data:
                if not fitting:
                    start = offset  # of an empty log it is the master's
                fitting.append(data)
                end = offset + len(data)
        return self._append(start, fitting) or refusal

    def _append(self, offset: int, pieces: list[memoryview]) -> Refusal | None:
        if not (pieces or offset):
            return None
        try:  # without pieces, too: an unfinished dispatch is retried
            self._sink.append_raw(offset, *pieces)
        except LogDiverged as error:
            return Refusal(RefusalKind.DIVERGED, f"{error}. {COMPARE}")
        except StoreError as error:
            return Refusal(RefusalKind.STORE, f"what it sends cannot be stored: {error}")
        self.received_bytes += sum(map(len, pieces))
        return None

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._report()

    def connection_lost(self, error: Exception | None) -> None:
        self.error = error
        self._end(None)

    # Reports and time

    def _report(self) -> None:
        """Report the end of the local log. If the master does not read reports, the next one says it."""
        if self._transport is not None and not self._is_paused:
            self.wrote_at = self._now()
            self._transport.write(self._encoded_report())

    def _watch_from(self, now: float) -> None:
        """Set the timer to the next moment at which a heartbeat or the timeout may be due."""
        due = min(self.wrote_at + self._heartbeat_seconds, self.heard_at + self._housekeeping_seconds)
        due = max(due, now + 0.001)
        self._watch = self._loop.call_later(due - now, self._look, due)

    def _look(self, due: float) -> None:
        now = self._now()
        if now - due > STALL_SECONDS:  # the process stalled: what the master sent meanwhile is still unread
            self.heard_at = max(self.heard_at, now - self._heartbeat_seconds)
        limit = self._housekeeping_seconds
        if now - self.heard_at >= limit:
            text = f"nothing was heard of it for {limit:g} s (haHousekeepingInterval)"
            self._end(Refusal(RefusalKind.SILENT, text))
            return
        if now - self.wrote_at >= self._heartbeat_seconds - 0.001:
            self._report()
            self.wrote_at = now
        self._watch_from(now)

    @property
    def _heartbeat_seconds(self) -> float:
        return self._config.heartbeat_interval_ms / 1000

    @property
    def _housekeeping_seconds(self) -> float:
        return self._config.housekeeping_interval_ms / 1000

    # The end

    def close(self) -> None:
        """Leave the master."""
        self._end(None)

    def _end(self, refusal: Refusal | None) -> None:
        transport, self._transport = self._transport, None
        if self._watch is not None:
            self._watch.cancel()
        if transport is not None:
            transport.abort()
        if not self.ended.done():
            self.ended.set_result(refusal)
