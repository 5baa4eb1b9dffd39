"""Access control of one broker: the files of ACL 1.0, users and policies of ACL 2.0, the gates in front of all
handlers, and the handlers of both.

A broker without `aclEnable=true` or `authenticationEnabled=true` has none of this. With both, both must agree. Each
signature is verified, by the gate in front of a handler or by the fast path, which keeps verdicts on rights.
"""

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hanabi.access.audit_log import AuditLog
from hanabi.access.guard import Source, Watch, guarded
from hanabi.access.guesses import Guesses
from hanabi.access.inner import InnerCredentials
from hanabi.access.names import Surroundings
from hanabi.access.plain.files import PlainFiles
from hanabi.access.plain.gate import PlainGate
from hanabi.access.quotas.created import CreatedTopics
from hanabi.access.quotas.metering import Metering
from hanabi.access.quotas.quota import read_quotas
from hanabi.access.refusals import Refusals
from hanabi.access.terms import Terms, TermsGate
from hanabi.broker.audited import Audit, Previous, previous_accounts, previous_policies
from hanabi.broker.fast_path.building import guard_parts
from hanabi.broker.handlers.admin.accounts import BrokerIdentity, account_handlers
from hanabi.broker.policy_access import PolicyAccess
from hanabi.broker.settings import Settings
from hanabi.errors import ConfigError
from hanabi.remoting.connection.dispatch import Handler
from hanabi.store.message_store import MessageStore
from hanabi.wire.command import Command
from hanabi.wire.message.properties import find_property
from hanabi.wire.message.record import decode_record
from hanabi.wire.system_names import CLOSED_TOPICS, TIMER_TOPIC

logger = logging.getLogger(__name__)


class AccessControl:
    """The parts of access control. *home* is the broker's own folder, where its files are if the settings name none."""

    def __init__(
        self,
        settings: Settings,
        store: MessageStore,
        home: Path,
        now_ms: Callable[[], int],
        *,
        has_topic: Callable[[str], bool],
        inner: InnerCredentials | None = None,
    ) -> None:
        """*inner* is the broker's own identity; *has_topic* says whether a topic is there."""
        broker = settings.broker
        self._settings, self._inner = settings, inner
        self._broker, self._store, self._home = broker, store, home
        folder = Path(broker.acl_folder) if broker.acl_folder else home / "config"
        self.files = PlainFiles(folder.absolute(), now_ms=now_ms, allows_open_list=broker.acl_open_white_list)
        self.policies: PolicyAccess | None = None  # from `load` on, with authenticationEnabled
        self.gates: list[TermsGate] = []  # from `guarded` on
        self.refusals = Refusals(time.monotonic)
        self.audit = self._audit(home, now_ms) if broker.audit_enabled else None
        self.guesses = Guesses(broker.guess_delay_ms / 1000) if broker.guess_delay_ms else None
        self._around = Surroundings(broker.cluster_name, broker.reply_topic, self.topic_at)
        self.metering = Metering(
            self._around,
            CreatedTopics(home / "config" / "createdTopics.json", has_topic),
            self._over_quota,
            exempt=frozenset({inner.access_key} if inner is not None else ()),
        )
        self._use_quotas()
        settings.on_change.append(self._use_quotas)

    def _use_quotas(self) -> None:
        self.metering.use(read_quotas(self._settings.broker.account_quotas))

    async def load(self) -> None:
        """Read the files; raise ConfigError if one is wrong."""
        await asyncio.to_thread(self._load)
        if not self._broker.allowed_peers and not self._broker.ha_tls_enabled:
            logger.warning("access control does not protect the port for slaves: set haAllowedPeers or haTlsEnable")

    def _load(self) -> None:
        broker = self._broker
        if broker.acl_enabled or broker.migrate_accounts:
            self.files.load()
        if broker.authentication_enabled:
            self.policies = PolicyAccess(broker, self._home / "config")
            self.policies.prepare(self._inner, self.files.rules.accounts.values() if broker.migrate_accounts else ())
        self._start_audit()

    async def refresh(self) -> None:
        """Read files that changed, and write what did, without blocking the loop."""
        if self._broker.acl_enabled:
            await asyncio.to_thread(self.files.refresh)
        self.metering.created.forget_deleted()
        await asyncio.to_thread(self.metering.created.save)

    def _audit(self, home: Path, now_ms: Callable[[], int]) -> Audit:
        broker = self._broker
        path = Path(broker.audit_path) if broker.audit_path else home / "audit" / "audit.log"
        return Audit(AuditLog(path, file_bytes_max=broker.audit_file_bytes, files_max=broker.audit_files), now_ms)

    def _start_audit(self) -> None:
        if self.audit is None:
            return
        try:
            self.audit.log.start()
        except OSError as error:
            raise ConfigError(f"auditLogPath {self.audit.log.path} cannot be written: {error.strerror}") from error

    def stop(self) -> None:
        """Write what waits."""
        self.metering.created.forget_deleted()
        self.metering.created.save()
        if self.audit is not None:
            self.audit.log.stop()

    def guarded(
        self, handlers: Mapping[int, Handler], address: str, previous: Mapping[int, Previous] | None = None
    ) -> dict[int, Handler]:
        """Return *handlers*, and those that administer accounts, behind the gates."""
        broker = self._broker
        identity = BrokerIdentity(broker.cluster_name, broker.broker_name, address)
        all_handlers, gates = dict(handlers), self.gates
        changed = {**(previous or {}), **previous_accounts(self.files)}
        if broker.acl_enabled:
            gates.append(PlainGate(self.files, self._around, uses_certificates=broker.certificate_accounts))
            all_handlers |= account_handlers(self.files, identity)
        if self.policies is not None:
            gate = self.policies.gate(self._around)
            gates.append(gate)
            all_handlers |= self.policies.handlers(gate)
            changed |= previous_policies(self.policies.directory)
        if self.audit is not None:
            all_handlers = self.audit.audited(all_handlers, changed)
        return behind_gates(all_handlers, gates, Watch(self.refused, self.guesses, self.metering))

    def _over_quota(self, header: object, request: Command, source: Source, reason: str) -> None:
        if self.audit is not None:
            self.audit.refused(header, request, source, reason)

    def refused(self, header: object, request: Command, source: Source, reason: str) -> None:
        """Note a refusal."""
        self.refusals.refused(header, request, source, reason)
        if self.audit is not None:
            self.audit.refused(header, request, source, reason)

    def topic_at(self, log_offset: int) -> str | None:
        """Return the topic of the message at *log_offset*; of one that waits elsewhere, its final topic."""
        data = self._store.queries.record(log_offset)
        if data is None:
            return None
        record = decode_record(data, check_crc=False)
        if record.topic not in CLOSED_TOPICS and record.topic != TIMER_TOPIC:
            return record.topic
        return find_property(record.properties, b"REAL_TOPIC") or record.topic


def behind_gates(handlers: Mapping[int, Handler], gates: Sequence[TermsGate], watch: Watch) -> dict[int, Handler]:
    """Return *handlers* behind *gates*, with their parts of the fast path, which keep to the terms of the gates and to
    the quotas."""
    behind = guarded(handlers, gates, watch)
    meters = watch.metering if isinstance(watch.metering, Metering) else None
    for code, carrier in guard_parts(handlers, Terms(gates, meters)).items():
        behind[code] = dataclasses.replace(behind[code], fast_path=carrier.fast_path)
    return behind
