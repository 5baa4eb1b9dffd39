"""Slave that follows its master: connects, appends what the master sends, and reconnects.

    slave = Slave(StoreLog(store), config)
    slave.start()
    slave.follow("192.0.2.1:10912")        haMasterAddress, or haServerAddr of a registration's reply; None: follow none
    slave.state()                          for operators
    await slave.stop()

Nothing is appended before the master has sent the end of this log once more, and it was equal (`overlap`). Only a log
that ends with a file is followed without that, after some attempts: the master may have deleted the file before.

A refusal (the logs differ, the disk is full, the peer is no master) is logged once a minute and retried at the longest
pause: it may need an operator. A lost connection is retried soon, with growing pauses.
"""

import asyncio
import logging
import ssl
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from hanabi.remoting.address import parse_address
from hanabi.remoting.transport.connecting import open_connection
from hanabi.replication.config import ReplicationConfig
from hanabi.replication.follower import Follower
from hanabi.replication.log_access import LogSink
from hanabi.replication.rules.log_limits import RepeatedWarnings
from hanabi.replication.rules.pacing import TransferRate
from hanabi.replication.rules.verdicts import COMPARE, Refusal, RefusalKind

logger = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS: Final = 0.2
COMPARISONS_MAX: Final = 3  # in a row that end without an answer
_UNREACHABLE: Final = "unreachable"
_LATE: Final = "no answer in time"
_UNANSWERED: Final = Refusal(
    RefusalKind.NOT_COMPARED,
    "it closes each connection before it has sent the last message of the log here, which must be compared. The log of"
    f" the master may say why: it has lost the end of its log, or no longer has files this old. {COMPARE}",
)


class SlaveView(msgspec.Struct, frozen=True, kw_only=True):
    """A slave's own state, as an operator sees it (HAClientRuntimeInfo of GET_BROKER_HA_STATUS)."""

    master_address: str | None
    is_connected: bool  # and the logs are known to agree
    end_offset: int
    received_bytes: int
    bytes_per_second: int
    silent_seconds: float  # since the master was last heard; 0 if not connected
    unreported_seconds: float  # since the last report to it
    trouble: str  # why it does not follow; empty if it does
    trouble_kind: RefusalKind | None = None  # if it refuses the master


class Slave:
    """Follows one master at a time. `refusals` counts its refusals by kind."""

    def __init__(
        self,
        sink: LogSink,
        config: ReplicationConfig,
        *,
        tls: ssl.SSLContext | None = None,
        now: Callable[[], float] = time.monotonic,
        on_lost: Callable[[], None] = lambda: None,
        new_follower: Callable[[], Follower] | None = None,
    ) -> None:
        """*on_lost* is called when a connection to the master has ended; *new_follower* makes another protocol's."""
        self._on_lost = on_lost
        self._new_follower = new_follower or (lambda: Follower(sink, config, now, compares=self._compares()))
        self._sink, self._config, self._tls, self._now = sink, config, tls, now
        self._address: str | None = None
        self._changed = asyncio.Event()  # set when the address changes
        self._follower: Follower | None = None
        self._received_before = 0  # by earlier connections
        self._rate = TransferRate(now())
        self._trouble = ""
        self._trouble_kind: RefusalKind | None = None
        self._unanswered = 0  # connections in a row that ended before the logs were compared
        self._task: asyncio.Task[None] | None = None
        self._warnings = RepeatedWarnings()
        self.refusals: Counter[RefusalKind] = Counter()

    def start(self) -> None:
        """Start following as soon as there is an address."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Leave the master and stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    def follow(self, address: str | None) -> None:
        """Follow the master at "host:port" from now on; None: leave the current one."""
        if address is not None:
            parse_address(address)
        if address == self._address:
            return
        self._address, self._unanswered = address, 0
        self._warnings = RepeatedWarnings()
        self._changed.set()
        if self._follower is not None:
            self._follower.close()

    @property
    def received_bytes(self) -> int:
        """Bytes of the log received from masters."""
        return self._received_before + (self._follower.received_bytes if self._follower is not None else 0)

    def state(self) -> SlaveView:
        """Return the state for operators."""
        now, follower = self._now(), self._follower
        is_connected = follower is not None and follower.is_compared
        return SlaveView(
            master_address=self._address,
            is_connected=is_connected,
            end_offset=self._sink.end_offset,
            received_bytes=self.received_bytes,
            bytes_per_second=self._rate.bytes_per_second(self.received_bytes, now),
            silent_seconds=now - follower.heard_at if follower is not None else 0.0,
            unreported_seconds=now - follower.wrote_at if follower is not None else 0.0,
            trouble="" if is_connected else self._trouble,
            trouble_kind=None if is_connected else self._trouble_kind,
        )

    # Following

    async def _run(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            await self._address_is_known()
            received = self.received_bytes
            refusal = await self._follow_once(self._address or "")
            if self._changed.is_set():
                pause = FIRST_PAUSE_SECONDS
                continue
            longest = self._config.reconnect_interval_ms / 1000
            if refusal is not None:
                pause = longest
            elif self.received_bytes > received:
                pause = FIRST_PAUSE_SECONDS
            await self._rest(min(pause, longest))
            pause = min(pause * 2, longest)

    async def _address_is_known(self) -> None:
        while self._address is None:
            self._changed.clear()
            await self._changed.wait()
        self._changed.clear()

    async def _rest(self, seconds: float) -> None:
        """Wait for *seconds*, or until the address changes."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _follow_once(self, address: str) -> Refusal | None:
        """Follow the master at *address* until the connection ends."""
        follower = await self._connect(address)
        if follower is None:
            return None
        if self._changed.is_set():  # the address changed while connecting
            follower.close()
            return None
        self._follower = follower
        self._warnings.forget(_UNREACHABLE)
        logger.info("following the master %s from offset %d", address, self._sink.end_offset)
        try:
            refusal = await follower.ended
        finally:
            follower.close()
            self._received_before += follower.received_bytes
            self._follower = None
        is_answered = follower.is_compared or (refusal is not None and refusal.kind is RefusalKind.DIVERGED)
        self._unanswered = 0 if is_answered else self._unanswered + 1
        is_unanswered = refusal is None and self._unanswered >= COMPARISONS_MAX
        self._note_end(address, _UNANSWERED if is_unanswered else refusal, follower.error)
        self._on_lost()
        return refusal

    async def _connect(self, address: str) -> Follower | None:
        """Open a connection; return None on failure."""
        host, port = parse_address(address)
        try:
            async with asyncio.timeout(self._config.connect_timeout_ms / 1000):
                follower = await open_connection(self._new_follower, host, port, self._tls)
        except OSError as error:  # includes TimeoutError and SSLError
            self._trouble, self._trouble_kind = f"no connection to the master {address}: {error or _LATE}", None
            self._complain(_UNREACHABLE, self._trouble)
            return None
        return follower

    def _compares(self) -> bool:
        """Return whether a master must show that it has the end of this log."""
        end, file_bytes = self._sink.end_offset, self._sink.file_bytes
        if end % file_bytes or self._unanswered < COMPARISONS_MAX:
            return True
        self._complain(
            "not compared",
            f"the master {self._address} does not send the end of the file before {end}, which it may have deleted: it"
            " is followed from there, and the logs are not compared",
        )
        return False

    def _note_end(self, address: str, refusal: Refusal | None, error: Exception | None) -> None:
        self._trouble_kind = refusal.kind if refusal is not None else None
        if refusal is None:
            self._trouble = f"the connection to the master {address} was lost: {error or 'closed by the master'}"
            if not self._changed.is_set():
                self._complain("lost", self._trouble)
            return
        self.refusals[refusal.kind] += 1
        self._trouble = f"the master {address} is not followed: {refusal.text}"
        self._complain(refusal.kind, self._trouble)

    def _complain(self, key: str, text: str) -> None:
        """Log *text*, at most once a minute for each kind."""
        if self._warnings.is_due(key, self._now()):
            again = self._warnings.held_back(key)
            logger.warning("%s%s", text, f" ({again} more times since the last line)" if again else "")
