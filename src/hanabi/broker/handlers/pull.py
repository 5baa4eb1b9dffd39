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
from hanabi.broker.pull.access import PullAccess
from hanabi.broker.pull.decisions import PullDecisions
from hanabi.broker.pull.long_polling import HeldPull, HeldPulls, Wants
from hanabi.broker.pull.outcome import SUSPEND, code_of, remark_of
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
    decisions = PullDecisions(access, commits, stats, settings, store.reader, now_ms)
    pulls = Pulls(store, decisions, held_pulls, stats, settings)
    handler = Handler(PullMessageHeader, pulls.handle, BODY_BYTES_MAX, pull_part(decisions, store))
    return {RequestCode.PULL_MESSAGE: handler, RequestCode.LITE_PULL_MESSAGE: handler}


class Pulls:
    """Handler of pulls."""

    def __init__(
        self,
        store: MessageStore,
        decisions: PullDecisions,
        held_pulls: HeldPulls,
        stats: BrokerStats,
        settings: Settings,
    ) -> None:
        self._reader, self._get, self._decisions = store.reader, store.get, decisions
        self._held_pulls, self._stats, self._settings = held_pulls, stats, settings
        self._warned: set[tuple[str, str, int]] = set()

    def handle(self, pull: PullMessageHeader, _request: Command, connection: Connection) -> Reply | HeldPull:
        """Return the messages, the reason why there are none, or a held reply."""
        decisions = self._decisions
        decisions.handled += 1
        began_ms = decisions.now_ms()
        access = decisions.admit(pull, connection.peer)
        if isinstance(access, Reply):
            return access
        group, message_filter = access
        offset = pull.queue_offset
        result = self._read(pull, offset, message_filter)
        decisions.note(pull, connection.peer)
        if result.status is not FOUND and pull.sys_flag & SUSPEND and _may_wait(result, offset):
            wants = message_filter.wants if message_filter is not PASSES_ALL else None
            held = self._hold(pull, connection, wants, result.max_offset)
            if held is not None:
                return held
        return self._reply(pull, connection, group, offset, result, began_ms)

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
        pull, began_ms = held.header, self._decisions.now_ms()
        access = self._decisions.admit(pull, held.connection.peer)
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
        suggested = self._decisions.suggested(group, result.behind_bytes)
        if result.status is FOUND:
            self._decisions.count(pull, result.count, result.size, result.behind_bytes, result.last_store_ms, began_ms)
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

    def _report_moved(self, pull: PullMessageHeader, connection: Connection, result: GetResult) -> None:
        """Log once as a warning for a queue of a group: a client that retries must not fill the log."""
        place = pull.consumer_group, pull.topic, pull.queue_id
        level = logging.DEBUG if place in self._warned else logging.WARNING
        if len(self._warned) >= _WARNED_MAX:
            self._warned.clear()
        self._warned.add(place)
        logger.log(
            level,
            "%s: group %s asks for %d of %s queue %d, which has %d to %d: corrected to %d (%s)",
            *(connection.peer, pull.consumer_group, pull.queue_offset, pull.topic, pull.queue_id),
            *(result.min_offset, result.max_offset, result.next_offset, result.status.value),
        )


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
