"""Replication port of a master: accepts slaves and sends each of them the log.

    master = Master(StoreLog(store), config, config.put_rule(is_sync=...))
    host, port = await master.start("0.0.0.0", 10912)
    master.appended()                               after each append, from the loop's thread: cheap
    master.acks.why_refused(end)                    before an append of a SYNC_MASTER
    master.acks.wait(end_offset, on_done)           after it; many replies of one iteration may share one wait
    await master.stop()

Everything appended in one iteration of the loop is sent in the next one, in one write for each slave.
"""

import asyncio
import logging
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec

from hanabi.remoting.address import format_address
from hanabi.remoting.transport.tls import handshake_reason
from hanabi.replication.acks import Acknowledgements
from hanabi.replication.config import ReplicationConfig
from hanabi.replication.log_access import LogSource
from hanabi.replication.rules.log_limits import RepeatedWarnings
from hanabi.replication.rules.progress import is_in_sync
from hanabi.replication.rules.put_rules import PutRule
from hanabi.replication.rules.verdicts import Refusal, RefusalKind
from hanabi.replication.sender import Sender
from hanabi.replication.tls_listener import TlsListener

logger = logging.getLogger(__name__)

BACKLOG: Final = 64
LOADERS: Final = 2
LOADERS_SECONDS: Final = 5.0  # at the stop, for reads from the disk


class SlaveState(msgspec.Struct, frozen=True, kw_only=True):
    """One slave, as an operator sees it (HAConnectionRuntimeInfo of GET_BROKER_HA_STATUS)."""

    address: str
    held_offset: int
    sent_offset: int
    lag_bytes: int
    lag_seconds: float
    is_in_sync: bool
    bytes_per_second: int


class Master:
    """Listens for slaves. `refusals` counts the connections that were refused or closed by us, by kind."""

    def __init__(
        self,
        log: LogSource,
        config: ReplicationConfig,
        rule: PutRule,
        *,
        tls: ssl.SSLContext | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """*tls*: the port accepts TLS only, which Apache's slaves cannot speak; `verify_mode` may ask for
        certificates."""
        self._log, self._config, self._tls, self._now = log, config, tls, now
        self._peers = config.peers()
        timeout_seconds = config.slave_timeout_ms / 1000
        self.acks = self._new_acks(rule, timeout_seconds)
        self.refusals: Counter[RefusalKind] = Counter()
        self._warnings = RepeatedWarnings()
        self._senders: dict[Sender, None] = {}  # the oldest first
        self._server: asyncio.Server | TlsListener | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._is_sending_due = False
        self.loaders = ThreadPoolExecutor(LOADERS, "hanabi-replication-read")  # a thread begins with its first work

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen, and return the bound address; port 0 means any. Raise OSError if the port is taken."""
        return await self.start_on(socket.create_server((host, port), backlog=BACKLOG))

    async def start_on(self, listener: socket.socket) -> tuple[str, int]:
        """Accept slaves on a socket that listens, and return its address."""
        self._loop = asyncio.get_running_loop()
        bound = listener.getsockname()
        if self._tls is not None:
            self._server = TlsListener(listener, self._tls, self._new_sender, self._handshake_failed)
        else:
            self._server = await self._loop.create_server(self._new_sender, sock=listener, backlog=BACKLOG)
        logger.info("slaves may connect to %s", format_address(bound))
        return bound[0], bound[1]

    def use(self, config: ReplicationConfig, rule: PutRule) -> None:
        """Apply changed settings, also to open connections."""
        self._config, self._peers = config, config.peers()
        self.acks.use(rule, config.slave_timeout_ms / 1000)
        for sender in self._senders:
            sender.use(config)

    async def stop(self) -> None:
        """Stop accepting, close all connections, and end the waiting puts."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for sender in list(self._senders):
            sender.close()
        if self._expiry is not None:
            self._expiry.cancel()
        self.acks.end_all()
        await self._stop_loaders()

    async def _stop_loaders(self) -> None:
        """Wait for reads from the disk, as the store is closed next. A disk that hangs does not prevent the stop."""
        ended = asyncio.ensure_future(asyncio.to_thread(self.loaders.shutdown, cancel_futures=True))
        done, _ = await asyncio.wait([ended], timeout=LOADERS_SECONDS)
        if not done:
            logger.warning("reading the log for slaves did not end within %g s: does the disk hang?", LOADERS_SECONDS)

    def close_connections(self) -> None:
        """Close the connections of all slaves; they may connect again."""
        for sender in list(self._senders):
            sender.close()

    def appended(self) -> None:
        """Schedule sending of new bytes: once for all appends of this loop iteration."""
        if self._senders and not self._is_sending_due and self._loop is not None:
            self._is_sending_due = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._is_sending_due = False
        for sender in tuple(self._senders):
            sender.pump()

    # For operators

    @property
    def connections(self) -> int:
        """Number of open connections, including those that have not asked for a position."""
        return len(self._senders)

    def slaves(self) -> list[SlaveState]:
        """Return the slaves that are connected and have asked for a position."""
        end, now, gap = self._log.end_offset, self._now(), self.acks.rule.fall_behind_bytes_max
        return [
            SlaveState(
                address=slave.address,
                held_offset=slave.held,
                sent_offset=slave.sent,
                lag_bytes=slave.lag_bytes(end),
                lag_seconds=slave.lag_seconds(end, now),
                is_in_sync=is_in_sync(slave, end, gap),
                bytes_per_second=sender.bytes_per_second(),
            )
            for sender in self._senders
            if (slave := sender.slave) is not None
        ]

    # Callbacks of senders

    def admit(self, sender: Sender, host: str) -> Refusal | None:
        """Count a new connection, or return the reason of its refusal."""
        if not self._peers.allows(host):
            return Refusal(RefusalKind.ADDRESS, "its address is not in haAllowedPeers")
        if len(self._senders) >= self._config.ha_connections_max:
            full = Refusal(
                RefusalKind.CONNECTIONS, f"there are {len(self._senders)} connections already (haConnectionsMax)"
            )
            mute = next((other for other in self._senders if other.slave is None), None)
            if mute is None:
                return full
            mute.evict(full)  # peers that say nothing must not lock out a slave
        self._senders[sender] = None
        return None

    def _handshake_failed(self, address: Any, error: Exception) -> None:
        self._refused(address[0], format_address(address), Refusal(RefusalKind.TLS, handshake_reason(error)))

    def refused(self, sender: Sender, refusal: Refusal) -> None:
        """Count and log a refusal: one line a minute for each host and kind."""
        self._refused(sender.host, sender.address, refusal)

    def _refused(self, host: str, address: str, refusal: Refusal) -> None:
        self.refusals[refusal.kind] += 1
        key = (host, refusal.kind)
        if self._warnings.is_due(key, self._now()):
            again = self._warnings.held_back(key)
            more = f" ({again} more times since the last line)" if again else ""
            logger.warning("slave %s is refused: %s%s", address, refusal.text, more)

    def gone(self, sender: Sender) -> None:
        """Remove a closed connection."""
        self._senders.pop(sender, None)

    def _new_acks(self, rule: PutRule, timeout_seconds: float) -> Acknowledgements:
        return Acknowledgements(rule, timeout_seconds=timeout_seconds, now=self._now, on_wait=self._expire_at)

    def _new_sender(self) -> Sender:
        return Sender(self._log, self._config, self.acks, self, self._now)

    # Waiting puts

    def _expire_at(self, deadline: float) -> None:
        if self._loop is not None and (self._expiry is None or self._expiry.cancelled()):
            self._expiry = self._loop.call_later(max(deadline - self._now(), 0), self._expire)

    def _expire(self) -> None:
        """End the puts whose deadline has passed, and set the timer for the next one."""
        self._expiry = None
        self.acks.expire()
        deadline = self.acks.next_deadline
        if deadline is not None:
            self._expire_at(deadline)
