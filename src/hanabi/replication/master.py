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
import ssl
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from hanabi.replication.acks import Acknowledgements
from hanabi.replication.config import ReplicationConfig
from hanabi.replication.log_access import LogSource
from hanabi.replication.rules.log_limits import Complaints
from hanabi.replication.rules.progress import is_in_sync
from hanabi.replication.rules.put_rules import PutRule
from hanabi.replication.rules.verdicts import Refusal, RefusalKind
from hanabi.replication.sender import Sender

logger = logging.getLogger(__name__)

BACKLOG: Final = 64
TLS_HANDSHAKE_SECONDS: Final = 10.0


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
        self.acks = Acknowledgements(rule, timeout_seconds=timeout_seconds, now=now, on_wait=self._expire_at)
        self.refusals: Counter[RefusalKind] = Counter()
        self._complaints = Complaints()
        self._senders: set[Sender] = set()
        self._server: asyncio.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._is_sending_due = False

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen, and return the bound address; port 0 means any. Raise OSError if the port is taken."""
        self._loop = asyncio.get_running_loop()
        handshake = TLS_HANDSHAKE_SECONDS if self._tls is not None else None
        self._server = await self._loop.create_server(
            self._new_sender, host, port, ssl=self._tls, ssl_handshake_timeout=handshake, backlog=BACKLOG
        )
        bound = self._server.sockets[0].getsockname()
        logger.info("slaves may connect to %s:%d", bound[0], bound[1])
        return bound[0], bound[1]

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
        await asyncio.sleep(0)  # lets the transports report their end

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
        if len(self._senders) >= self._config.connections_max:
            return Refusal(
                RefusalKind.CONNECTIONS, f"there are {len(self._senders)} connections already (haConnectionsMax)"
            )
        self._senders.add(sender)
        return None

    def refused(self, sender: Sender, refusal: Refusal) -> None:
        """Count and log a refusal: one line a minute for each host and kind."""
        self.refusals[refusal.kind] += 1
        key = (sender.host, refusal.kind)
        if self._complaints.is_due(key, self._now()):
            again = self._complaints.held_back(key)
            more = f" ({again} more times since the last line)" if again else ""
            logger.warning("slave %s is refused: %s%s", sender.address, refusal.text, more)

    def gone(self, sender: Sender) -> None:
        """Remove a closed connection."""
        self._senders.discard(sender)

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
