"""Pulls (11, and 361 from lite pull consumers of 5.x): messages of one queue, or a held reply until some arrive.

    check access ─> filter ─> read ─> slices of the log, as they are          nothing there ─> hold, and read again

Agrees with PullMessageProcessor (4.9.8) in every code, remark and field. A held pull is checked and read again as a
whole when it is woken, and is not held twice. Two things are immediate that take Apache up to 5 s: skipping a damaged
file of a queue, and answering a held pull at its deadline.
"""

import logging
from collections.abc import Callable
from typing import Final

from hanabi.broker.fast_path.building import pull_part
from hanabi.broker.filters.message_filter import PASSES_ALL, MessageFilter
from hanabi.broker.offsets.commit_rules import CommitRules
from hanabi.broker.pull.access import Access, PullAccess
from hanabi.broker.pull.long_polling import HeldPull, HeldPulls, Wants
from hanabi.broker.pull.outcome import COMMIT_OFFSET, MASTER_ID, SUSPEND, code_of, remark_of, suggested_broker
from hanabi.broker.settings import Settings
from hanabi.broker.stats.broker_stats import BrokerStats
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.store.message_store import MessageStore
from hanabi.store.read.queue_reader import FOUND, GetResult, GetStatus
from hanabi.wire.bodies.groups import SubscriptionGroupConfig
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.headers.pull import PullMessageHeader

_SUCCESS: Final = int(ResponseCode.SUCCESS)
_WARNED_MAX: Final = 1_000
BODY_BYTES_MAX: Final = 1024  # a pull has no body

logger = logging.getLogger(__name__)


def pull_handlers(
    store: MessageStore,
    access: PullAccess,
    commits: CommitRules,
    held_pulls: HeldPulls,
    stats: BrokerStats,
    settings: Settings,
    now_ms: Callable[[], int],
) -> dict[int, Handler]:
    """Return the handlers of pulls."""
    pulls = Pulls(store, access, commits, held_pulls, stats, settings, now_ms)
    handler = Handler(PullMessageHeader, pulls.handle, BODY_BYTES_MAX, pull_part(pulls, store))
    return {RequestCode.PULL_MESSAGE: handler, RequestCode.LITE_PULL_MESSAGE: handler}


class Pulls:
    """Handler of pulls. `handled` counts them. The fast path takes its decisions here, too: see `PullDecisions`."""

    def __init__(
        self,
        store: MessageStore,
        access: PullAccess,
        commits: CommitRules,
        held_pulls: HeldPulls,
        stats: BrokerStats,
        settings: Settings,
        now_ms: Callable[[], int],
    ) -> None:
        self._reader, self._get = store.reader, store.get
        self._access, self._commits, self._held_pulls = access, commits, held_pulls
        self._stats, self._settings, self.now_ms = stats, settings, now_ms
        self.handled = 0
        self._warned: set[tuple[str, str, int]] = set()

    def handle(self, pull: PullMessageHeader, _request: Command, connection: Connection) -> Reply | HeldPull:
        """Return the messages, the reason why there are none, or a held reply."""
        self.handled += 1
        began_ms = self.now_ms()
        access = self.admit(pull, connection.peer)
        if isinstance(access, Reply):
            return access
        group, message_filter = access
        offset = pull.queue_offset
        result = self._read(pull, offset, message_filter)
        self.note(pull, connection.peer)
        if result.status is not FOUND and pull.sys_flag & SUSPEND and _may_wait(result, offset):
            wants = message_filter.wants if message_filter is not PASSES_ALL else None
            held = self._hold(pull, connection, wants, result.max_offset)
            if held is not None:
                return held
        return self._reply(pull, connection, group, offset, result, began_ms)

    def admit(self, pull: PullMessageHeader, peer: str) -> Access | Reply:
        """Return the group and filter of *pull*, or the reply that refuses it."""
        return self._access.check(pull, peer)

    def note(self, pull: PullMessageHeader, peer: str) -> None:
        """Note the reader of a queue, and the offset that it commits with its pull."""
        place = pull.consumer_group, pull.topic, pull.queue_id
        self._commits.note_reader(*place, peer)
        if pull.sys_flag & COMMIT_OFFSET and self._takes_commits:
            self._commits.commit_with_pull(*place, pull.commit_offset, peer)

    @property
    def _takes_commits(self) -> bool:
        """Return whether pulls may commit: a plain slave leaves that to its master, as in 4.9."""
        return not self._settings.is_slave or self._settings.broker.acting_master_enabled

    def _read(self, pull: PullMessageHeader, offset: int, message_filter: MessageFilter) -> GetResult:
        return self._get(
            pull.topic,
            pull.queue_id,
            offset,
            pull.max_msg_nums,
            entry_filter=message_filter.entry,
            record_filter=message_filter.record,
        )

    def _again(self, held: HeldPull) -> Reply:
        """Return the reply to a pull that was woken or has expired."""
        pull, began_ms = held.header, self.now_ms()
        access = self.admit(pull, held.connection.peer)
        if isinstance(access, Reply):
            return access
        group, message_filter = access
        if held.connection.is_stalled:
            result = self._nothing_now(pull, held.offset)
        else:
            result = self._read(pull, held.offset, message_filter)
        return self._reply(pull, held.connection, group, held.offset, result, began_ms)

    def _nothing_now(self, pull: PullMessageHeader, offset: int) -> GetResult:
        """Return an empty result for a peer that does not read its replies: it may have thousands of pulls waiting, and
        messages for all of them would fill memory. It retries once it has read this."""
        reader, place = self._reader, (pull.topic, pull.queue_id)
        return GetResult(GetStatus.NO_MATCHED_MESSAGE, offset, reader.min_offset(*place), reader.max_offset(*place))

    def _reply(
        self,
        pull: PullMessageHeader,
        connection: Connection,
        group: SubscriptionGroupConfig,
        offset: int,
        result: GetResult,
        began_ms: int,
    ) -> Reply:
        suggested = self.suggested(group, result.behind_bytes)
        if result.status is FOUND:
            self.count(pull, result.count, result.size, result.behind_bytes, result.last_store_ms, began_ms)
            return Reply(_SUCCESS, "FOUND", None, result.slices, _fields(result, suggested))
        self._stats.get_missed()
        code = code_of(result.status, offset)
        if code is ResponseCode.PULL_OFFSET_MOVED:
            if self._reader.corrects_offsets:
                self._report_moved(pull, connection, result)
            else:  # a slave that may lack messages of its master: the consumer shall ask the master
                code, suggested = ResponseCode.PULL_RETRY_IMMEDIATELY, group.broker_id
        return Reply(code, remark_of(result.status), fields=_fields(result, suggested))

    def _hold(
        self, pull: PullMessageHeader, connection: Connection, wants: Wants | None, max_offset: int
    ) -> HeldPull | None:
        broker = self._settings.broker
        is_long = broker.long_polling_enabled
        held = self._held_pulls.hold(
            pull,
            connection,
            self._again,
            wait_ms=pull.suspend_timeout_millis if is_long else broker.short_polling_ms,
            wants=wants,
            wakes=is_long,
        )
        if held is not None and is_long and self._reader.max_offset(pull.topic, pull.queue_id) != max_offset:
            self._held_pulls.wake(held)  # a message that arrived between the read and here woke no pull
        return held

    def suggested(self, group: SubscriptionGroupConfig, behind_bytes: int) -> int:
        """Return the id of the broker to ask next, by the lag of the consumer."""
        if not self._settings.broker.slave_read_enabled:
            return MASTER_ID
        return suggested_broker(group, suggests_slave=behind_bytes > self._reader.memory_bytes)

    def count(
        self, pull: PullMessageHeader, count: int, size: int, behind_bytes: int, last_store_ms: int, began_ms: int
    ) -> None:
        """Count the messages of a reply."""
        place = pull.consumer_group, pull.topic, pull.queue_id
        self._stats.found(*place, count, size, behind_bytes, last_store_ms, began_ms, self.now_ms())

    def _report_moved(self, pull: PullMessageHeader, connection: Connection, result: GetResult) -> None:
        self._warn_once(
            (pull.consumer_group, pull.topic, pull.queue_id),
            "%s: group %s asks for %d of %s queue %d, which has %d to %d: corrected to %d (%s)",
            connection.peer,
            pull.consumer_group,
            pull.queue_offset,
            pull.topic,
            pull.queue_id,
            result.min_offset,
            result.max_offset,
            result.next_offset,
            result.status.value,
        )

    def _warn_once(self, place: tuple[str, str, int], text: str, *values: object) -> None:
        """Log once as a warning for a queue of a group: a client that retries must not fill the log."""
        level = logging.DEBUG if place in self._warned else logging.WARNING
        if len(self._warned) >= _WARNED_MAX:
            self._warned.clear()
        self._warned.add(place)
        logger.log(level, text, *values)


def _may_wait(result: GetResult, offset: int) -> bool:
    """Return whether the pull may be held: not if the reply moves the offset, as there may be messages at the new
    one."""
    return code_of(result.status, offset) is ResponseCode.PULL_NOT_FOUND and result.next_offset == offset


def _fields(result: GetResult, suggested: int) -> dict[str, str]:
    """Return the encoded fields of a PullMessageReplyHeader: building the struct takes longer than all checks of the
    pull."""
    return {
        "suggestWhichBrokerId": str(suggested),
        "nextBeginOffset": str(result.next_offset),
        "minOffset": str(result.min_offset),
        "maxOffset": str(result.max_offset),
    }
