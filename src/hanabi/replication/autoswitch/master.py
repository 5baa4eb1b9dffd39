"""Replication port of a broker in controller mode. It serves slaves only while this broker is the master."""

import ssl
import time
from collections.abc import Callable

from hanabi.errors import RemoteProtocolError
from hanabi.replication.acks import Acknowledgements
from hanabi.replication.autoswitch.acks import InSyncAcks
from hanabi.replication.autoswitch.epochs import EpochFile, epoch_at
from hanabi.replication.autoswitch.wire import Hello, SlaveParser, encode_epochs, encode_piece_header
from hanabi.replication.config import ReplicationConfig
from hanabi.replication.log_access import LogSource
from hanabi.replication.master import Master
from hanabi.replication.rules.progress import SlaveProgress
from hanabi.replication.rules.put_rules import PutRule
from hanabi.replication.rules.sync_set import Replica
from hanabi.replication.rules.verdicts import LogRange, Refusal, RefusalKind
from hanabi.replication.sender import Sender


class AutoSwitchMaster(Master):
    """Listens for slaves. `is_master` opens and closes it for them."""

    def __init__(
        self,
        log: LogSource,
        config: ReplicationConfig,
        rule: PutRule,
        epochs: EpochFile,
        *,
        tls: ssl.SSLContext | None = None,
        now: Callable[[], float] = time.monotonic,
        on_confirmed: Callable[[int], None] = lambda offset: None,
        on_progress: Callable[[], None] = lambda: None,
    ) -> None:
        """*on_confirmed* gets each new limit of readers; *on_progress* is called when a replica comes, goes or holds
        more."""
        self.epochs, self._on_confirmed, self.on_progress = epochs, on_confirmed, on_progress
        self.is_master = False
        super().__init__(log, config, rule, tls=tls, now=now)

    def _new_acks(self, rule: PutRule, timeout_seconds: float) -> Acknowledgements:
        log = self._log
        self.in_sync = InSyncAcks(
            rule,
            timeout_seconds=timeout_seconds,
            now=self._now,
            on_wait=self._expire_at,
            end_offset=lambda: log.end_offset,
            on_confirmed=self._on_confirmed,
        )
        return self.in_sync

    def _new_sender(self) -> Sender:
        return AutoSwitchSender(self._log, self._config, self.in_sync, self, self._now)


class AutoSwitchSender(Sender):
    """Sends the log to one slave, after a handshake."""

    def __init__(
        self,
        log: LogSource,
        config: ReplicationConfig,
        acks: InSyncAcks,
        owner: AutoSwitchMaster,
        now: Callable[[], float],
    ) -> None:
        super().__init__(log, config, acks, owner, now)
        self._in_sync, self._port = acks, owner
        self._frames = SlaveParser()
        self._hello: Hello | None = None
        self._replica: Replica | None = None

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            return
        try:
            frames = self._frames.feed(data)
        except RemoteProtocolError as error:
            self._refuse(Refusal(RefusalKind.NOT_A_SLAVE, f"it sends {error}: it is no slave in controller mode"))
            return
        for frame in frames:
            self._heard_at = self._now()
            if isinstance(frame, Hello):
                self._greet(frame)
            else:
                self._take_report(frame)

    def _greet(self, hello: Hello) -> None:
        """Answer with our epochs: the slave cuts its log to what both have."""
        if not self._port.is_master:
            self._refuse(Refusal(RefusalKind.NOT_A_SLAVE, "this broker is not the master now"))
            return
        self._hello = hello
        self._write(encode_epochs(self._log.end_offset, self._port.epochs.epochs))

    def _take_report(self, report: int) -> None:
        if self._hello is None:
            self._refuse(Refusal(RefusalKind.NOT_A_SLAVE, "it reports before a handshake"))
        elif self.slave is None:
            self._start(report)
            if self.slave is not None:
                hello, now = self._hello, self._now()
                self._replica = Replica(hello.broker_id, hello.is_learner, caught_up_at=now)
                self._in_sync.join_replica(self._replica)
        else:
            self._acknowledge(report)

    def _acknowledged(self, slave: SlaveProgress) -> None:
        """Leave that to the replica: an empty one counts, too."""

    def _acknowledge(self, report: int) -> None:
        super()._acknowledge(report)
        replica, slave = self._replica, self.slave
        if replica is None or slave is None or self._transport is None:
            return
        replica.caught_up_at = slave.caught_up_at
        if report > replica.acked:
            replica.acked = report
            self._in_sync.acknowledged()
            if replica.broker_id not in self._in_sync.sync_set.members:
                self._port.on_progress()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        if self._replica is not None:
            self._in_sync.leave_replica(self._replica)
            self._port.on_progress()

    # The protocol

    def _position(self, report: int, log: LogRange) -> int | Refusal:
        if report == 0 and self._hello is not None and not self._hello.is_from_last_file:
            return log.start
        return super()._position(report, log)

    def _header(self, offset: int, size: int) -> bytes:
        epoch, _ = epoch_at(self._port.epochs.epochs, offset)
        confirmed = min(self._in_sync.confirmed, self._log.end_offset)
        return encode_piece_header(offset, size, epoch, confirmed)

    def _piece_end(self, offset: int, end: int) -> int:
        _, epoch_end = epoch_at(self._port.epochs.epochs, offset)
        return end if epoch_end is None else min(end, epoch_end)
