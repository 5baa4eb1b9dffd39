"""One connection of a master to a slave: reads reports and sends the log from the first of them on.

    connected ─ first report ─► a position, or a refusal ─► pieces ... heartbeats ... pieces ─► closed
                                                       ◄─ reports: what the slave holds

A piece is sent as its header and a slice of the mapped log, without a copy. At most `BUFFERED_BYTES_MAX` are buffered
for a slow slave; then sending stops until it has read. So a slave costs bounded memory and bounded time in each
iteration of the loop, and does not slow other slaves.

A slave that is behind needs bytes that may be on the disk only: the kernel would read them while the loop waits. They
are loaded by another thread first, a window at a time, if they are not in memory.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final, Protocol, cast

from hanabi.remoting.address import format_address
from hanabi.replication.acks import Acknowledgements
from hanabi.replication.config import ReplicationConfig
from hanabi.replication.log_access import LogSource
from hanabi.replication.rules.pacing import TokenBucket, TransferRate
from hanabi.replication.rules.progress import SlaveProgress
from hanabi.replication.rules.verdicts import LogRange, Refusal, RefusalKind, check_acknowledgement, start_position
from hanabi.replication.wire import ReportParser, encode_header

logger = logging.getLogger(__name__)

BUFFERED_BYTES_MAX: Final = 256 << 10
TURN_BYTES_MAX: Final = 1 << 20  # then other connections are served
WINDOW_BYTES: Final = 4 << 20  # that are looked at, and loaded, at once
FRESH_BYTES: Final = 32 << 20  # of the end of the log are in memory if they were appended during the connection
STALL_SECONDS: Final = 1.0  # a timer this late means that this process stalled


class SenderOwner(Protocol):
    """Callbacks of a sender to its master."""

    @property
    def loaders(self) -> Executor:
        """Threads that read from the disk."""

    def admit(self, sender: "Sender", host: str) -> Refusal | None:
        """Count a new connection, or return the reason of its refusal."""

    def refused(self, sender: "Sender", refusal: Refusal) -> None:
        """Note a refusal; the connection is being closed."""

    def gone(self, sender: "Sender") -> None:
        """Remove a closed connection."""


class Sender(asyncio.Protocol):
    """Sends the log to one slave. `slave` is its progress, from its first report on."""

    def __init__(
        self,
        log: LogSource,
        config: ReplicationConfig,
        acks: Acknowledgements,
        owner: SenderOwner,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log, self._config, self._acks, self._owner, self._now = log, config, acks, owner, now
        self._loop = asyncio.get_running_loop()
        self.address, self.host = "unknown", ""
        self.slave: SlaveProgress | None = None
        self._transport: asyncio.Transport | None = None  # None: not yet open, or closed
        self._reports = ReportParser()
        self._heard_at = self._wrote_at = now()
        self._paused_at: float | None = None  # since when the slave has not read our data
        self._bucket = self._new_bucket()
        self._rate = TransferRate(now())
        self._watch: asyncio.TimerHandle | None = None
        self._pump_later: asyncio.Handle | None = None
        self._fresh_from = self._in_memory_to = 0
        self._loading: asyncio.Future[None] | None = None

    def use(self, config: ReplicationConfig) -> None:
        """Apply changed settings."""
        self._config = config
        self._bucket = self._new_bucket()

    def _new_bucket(self) -> TokenBucket | None:
        config = self._config
        return TokenBucket(config.transfer_bytes_per_second, self._now()) if config.flow_control_enabled else None

    # Callbacks of the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer: Any = transport.get_extra_info("peername") or ("unknown", 0)
        self.address, self.host = format_address(peer), peer[0]
        self._transport.set_write_buffer_limits(high=BUFFERED_BYTES_MAX)
        refusal = self._owner.admit(self, self.host)
        if refusal is not None:
            self._refuse(refusal)
            return
        self._heard_at = self._wrote_at = self._now()
        self._watch_from(self._now())

    def data_received(self, data: bytes) -> None:
        if self._transport is None or not (reports := self._reports.feed(data)):
            return
        self._heard_at = self._now()
        if self.slave is None:
            self._start(reports[0])
            reports = reports[1:]
        if reports:
            self._acknowledge(reports[-1])

    def eof_received(self) -> bool:
        return False  # the transport closes itself: a slave without reports cannot acknowledge

    def pause_writing(self) -> None:
        self._paused_at = self._now()

    def resume_writing(self) -> None:
        self._paused_at = None
        self.pump()

    def connection_lost(self, error: Exception | None) -> None:
        self._close()
        if self.slave is not None:
            self._acks.leave(self.slave)
            behind = self.slave.lag_bytes(self._log.end_offset)
            reason = f": {error}" if error is not None else ""
            logger.info(
                "slave %s is gone at offset %d, %d bytes behind%s", *(self.address, self.slave.held, behind, reason)
            )
            self.slave = None
        self._owner.gone(self)

    # Reports

    def _start(self, report: int) -> None:
        """Start sending at the position of the first report."""
        log = LogRange(self._log.min_offset, self._log.end_offset, self._log.file_bytes)
        start = self._position(report, log)
        if isinstance(start, Refusal):
            self._refuse(start)
            return
        self._fresh_from, now = log.end, self._now()
        self.slave = SlaveProgress(
            address=self.address, reported=report, held=start, sent=start, heard_at=now, caught_up_at=now
        )
        self._acks.join(self.slave)
        logger.info("slave %s follows from offset %d, %d bytes behind", self.address, start, log.end - start)
        if start == log.end:
            self._write(self._header(start, 0))  # Hanabi's slaves answer with a report: an acknowledgement
        self.pump()

    def _acknowledge(self, report: int) -> None:
        slave = self.slave
        if slave is None:
            return
        refusal = check_acknowledgement(report, previous=slave.reported, sent=slave.sent)
        if refusal is not None:
            self._refuse(refusal)
            return
        is_more = report > slave.acked
        slave.acknowledge(report, end=self._log.end_offset, now=self._now())
        if is_more:
            self._acknowledged(slave)

    def _acknowledged(self, slave: SlaveProgress) -> None:
        """Release the puts that wait for this acknowledgement."""
        self._acks.acknowledged()

    # Differences between the protocols

    def _position(self, report: int, log: LogRange) -> int | Refusal:
        """Return where to start sending."""
        return start_position(report, log)

    def _header(self, offset: int, size: int) -> bytes:
        """Encode the header of a piece."""
        return encode_header(offset, size)

    def _piece_end(self, offset: int, end: int) -> int:
        """Return where a piece that begins at *offset* must end."""
        return end

    # Pieces

    def pump(self) -> None:
        """Send new bytes of the log, as far as the slave reads and the flow limit allows."""
        slave, left = self.slave, TURN_BYTES_MAX
        if slave is None:
            return
        end = self._log.end_offset
        while slave.sent < end and self._paused_at is None and self._transport is not None:
            if left <= 0:
                self._pump_after(0)
                return
            sent = self._send_pieces(slave, self._in_memory(slave.sent, end))
            if not sent:
                return
            left -= sent

    def _send_pieces(self, slave: SlaveProgress, end: int) -> int:
        """Send some pieces up to *end* by one write; return their size, or 0 if there is none to send now."""
        start, parts = slave.sent, list[bytes | memoryview]()
        while slave.sent < end and slave.sent - start < BUFFERED_BYTES_MAX:
            size = self._allowed()
            if not size:
                break
            most = size if self._bucket is not None else BUFFERED_BYTES_MAX - (slave.sent - start)
            tail = self._log.slice(slave.sent, min(most, self._piece_end(slave.sent, end) - slave.sent))
            if not tail:
                text = f"it is at {slave.sent}, but the oldest file here begins at {self._log.min_offset} by now"
                self._refuse(Refusal(RefusalKind.BELOW_START, text))
                return 0
            for at in range(0, len(tail), size):
                piece = tail[at : at + size]
                parts += (self._header(slave.sent, len(piece)), piece)
                slave.sent += len(piece)
            if self._bucket is not None:
                self._bucket.take(len(tail))
        if parts:
            self._write(*parts)
            slave.transferred_bytes += slave.sent - start
        return slave.sent - start

    def _in_memory(self, offset: int, end: int) -> int:
        """Return up to where the log can be sent from *offset* on without waiting for the disk; load it if that is
        nowhere."""
        if offset >= self._fresh_from and end - offset <= FRESH_BYTES:
            return end
        if offset >= self._in_memory_to and self._loading is None:
            size = min(WINDOW_BYTES, self._log.file_bytes - offset % self._log.file_bytes)
            if self._log.is_in_memory(offset, size):
                self._in_memory_to = offset + size
            else:
                self._loading = self._loop.run_in_executor(self._owner.loaders, self._log.load, offset, size)
                self._loading.add_done_callback(lambda done: self._loaded(done, offset + size))
        return min(self._in_memory_to, end)

    def _loaded(self, done: asyncio.Future[None], end: int) -> None:
        """Go on behind a window that was loaded up to *end*."""
        self._loading = None
        if done.cancelled() or self.slave is None:
            return
        error = done.exception()
        if error is not None:
            self._refuse(Refusal(RefusalKind.STORE, f"the log that it needs cannot be read: {error}"))
            return
        self._in_memory_to = end
        self.pump()

    def _allowed(self) -> int:
        """Return the maximum size of the next piece; 0 if it has to wait for the flow limit."""
        size, bucket = self._config.transfer_batch_bytes, self._bucket
        if bucket is None:
            return size
        allowed = min(size, bucket.allowance(self._now()))
        wait = bucket.seconds_until(size)
        if wait <= 0:
            return max(allowed, 1)
        self._pump_after(wait)
        return 0

    def _pump_after(self, seconds: float) -> None:
        """Schedule one call of `pump`."""
        if self._pump_later is not None:
            self._pump_later.cancel()
        if seconds:
            self._pump_later = self._loop.call_later(seconds, self.pump)
        else:
            self._pump_later = self._loop.call_soon(self.pump)

    def _write(self, *parts: bytes | memoryview) -> None:
        if self._transport is not None:
            self._wrote_at = self._now()
            self._transport.writelines(parts)

    # Timers

    def _watch_from(self, now: float) -> None:
        """Set the timer to the next moment at which a heartbeat or the timeout may be due."""
        patience_ends = min(self._heard_at, self._paused_at or self._heard_at) + self._housekeeping_seconds
        due = min(self._wrote_at + self._heartbeat_seconds, patience_ends)
        due = max(due, now + 0.001)
        self._watch = self._loop.call_later(due - now, self._look, due)

    def _look(self, due: float) -> None:
        """Send a heartbeat, or close a connection that is dead."""
        now = self._now()
        if now - due > STALL_SECONDS:  # the process stalled: what the slave sent meanwhile is still unread
            self._heard_at = max(self._heard_at, now - self._heartbeat_seconds)
            self._paused_at = None if self._paused_at is None else now
        refusal = self._why_dead(now)
        if refusal is not None:
            self._refuse(refusal)
            return
        if now - self._wrote_at >= self._heartbeat_seconds - 0.001:
            if self.slave is not None and self._paused_at is None:
                self._write(self._header(self.slave.sent, 0))
            self._wrote_at = now
        self._watch_from(now)

    def _why_dead(self, now: float) -> Refusal | None:
        limit = self._housekeeping_seconds
        if now - self._heard_at >= limit:
            return Refusal(RefusalKind.SILENT, f"nothing was heard of it for {limit:g} s (haHousekeepingInterval)")
        if self._paused_at is not None and now - self._paused_at >= limit:
            return Refusal(RefusalKind.SILENT, f"it has read nothing for {limit:g} s (haHousekeepingInterval)")
        return None

    @property
    def _heartbeat_seconds(self) -> float:
        return self._config.heartbeat_interval_ms / 1000

    @property
    def _housekeeping_seconds(self) -> float:
        return self._config.housekeeping_interval_ms / 1000

    # The end

    def bytes_per_second(self) -> int:
        """Return the bytes sent in the last whole second."""
        return 0 if self.slave is None else self._rate.bytes_per_second(self.slave.transferred_bytes, self._now())

    def close(self) -> None:
        """Close the connection; `gone` is called later."""
        if self._transport is not None:
            self._transport.abort()
        self._close()

    def evict(self, refusal: Refusal) -> None:
        """Close the connection in favour of another one."""
        self._refuse(refusal)
        self._owner.gone(self)

    def _refuse(self, refusal: Refusal) -> None:
        self._owner.refused(self, refusal)
        self.close()

    def _close(self) -> None:
        self._transport = None
        for handle in (self._watch, self._pump_later):
            if handle is not None:
                handle.cancel()
