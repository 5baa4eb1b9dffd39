"""POP over remoting: pop (200050), peek (200052), notification (200054), polling info (200055).

    check access ─> pop ─> records as they are stored, with the texts of their receipts      nothing there ─> hold

Agrees with PopMessageProcessor, PeekMessageProcessor, NotificationProcessor and PollingInfoProcessor (5.3.3) in codes,
remarks and fields. Records of a retry topic are returned under that topic, as with `popResponseReturnActualRetryTopic`:
clients take the topic that they asked for.
"""

from collections.abc import Callable
from typing import Final

from hanabi.broker.filters.message_filter import PASSES_ALL, MessageFilter
from hanabi.broker.pop.held_pops import HeldPop
from hanabi.broker.pop.reading import START_AT_OLDEST, Popped, PopRequest
from hanabi.broker.pop.service import PopService
from hanabi.broker.pull.filters import PullFilters
from hanabi.broker.settings import Settings
from hanabi.broker.stats.broker_stats import BrokerStats
from hanabi.broker.tables.groups import Groups
from hanabi.broker.tables.topics import PERM_READ, Topics
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.store.log.commit_log import TOPIC_BYTES_MAX
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.headers.v5.pop import (
    NotificationHeader,
    NotificationReplyHeader,
    PeekMessageHeader,
    PollingInfoHeader,
    PollingInfoReplyHeader,
    PopMessageHeader,
)
from hanabi.wire.receipts import mark_of, message_offsets_text, retry_topic_v1, start_offsets_text

MESSAGES_MAX: Final = 32
LATE_MS_MAX: Final = 500  # after its poll time a pop is not served any more: its client has given up
BODY_BYTES_MAX: Final = 1024  # none of them has a body
_SEE: Final = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."
_NOTHING: Final = "NO_MESSAGE_IN_QUEUE"


def pop_handlers(
    service: PopService, access: "PopAccess", stats: BrokerStats, now_ms: Callable[[], int]
) -> dict[int, Handler]:
    """Return the handlers of requests that ask for messages."""
    pops = Pops(service, access, stats, now_ms)
    views = PopViews(service, access, now_ms)
    return {
        RequestCode.POP_MESSAGE: Handler(PopMessageHeader, pops.handle, BODY_BYTES_MAX),
        RequestCode.PEEK_MESSAGE: Handler(PeekMessageHeader, views.peek, BODY_BYTES_MAX),
        RequestCode.NOTIFICATION: Handler(NotificationHeader, views.notify, BODY_BYTES_MAX),
        RequestCode.POLLING_INFO: Handler(PollingInfoHeader, views.polling, BODY_BYTES_MAX),
    }


class PopAccess:
    """Checks of topic, group, permission and filter."""

    def __init__(self, topics: Topics, groups: Groups, filters: PullFilters, settings: Settings) -> None:
        self._topics, self._groups, self._filters, self._settings = topics, groups, filters, settings

    def refusal(self, topic: str, group: str, queue_id: int, peer: str, verb: str = "pop") -> Reply | None:
        """Return the reply that refuses to *verb* messages; None if it is allowed."""
        broker = self._settings.broker
        host = broker.advertised_host or broker.broker_name
        if self._settings.is_slave:
            return Reply(ResponseCode.SYSTEM_ERROR, f"the broker[{host}] is a slave: {verb} messages from its master")
        if not broker.permission & PERM_READ:
            return Reply(ResponseCode.NO_PERMISSION, f"the broker[{host}] {verb} message is forbidden")
        config = self._topics.find(topic)
        if config is None:
            return Reply(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please! {_SEE}")
        if not config.perm & PERM_READ:
            return Reply(ResponseCode.NO_PERMISSION, f"the topic[{topic}] peeking message is forbidden")
        if queue_id >= config.read_queue_nums:
            return _invalid(
                f"queueId[{queue_id}] is illegal, topic:[{topic}] topicConfig.readQueueNums:[{config.read_queue_nums}]"
                f" consumer:[{peer}]"
            )
        return self._group_refusal(topic, group)

    def _group_refusal(self, topic: str, group: str) -> Reply | None:
        config = self._groups.find(group)
        if config is None:
            return Reply(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{group}] does not exist, {_SEE}"
            )
        if not config.consume_enable:
            return Reply(ResponseCode.NO_PERMISSION, f"subscription group no permission, {group}")
        if len(retry_topic_v1(topic, group).encode()) > TOPIC_BYTES_MAX:
            return _invalid(f"the names of group and topic have more than {TOPIC_BYTES_MAX} bytes together: {group}")
        return None

    def number_refusal(self, pop: PopMessageHeader) -> Reply | None:
        """Return the reply that refuses the numbers of a pop; None if they are within the limits."""
        broker = self._settings.broker
        if not 0 < pop.max_msg_nums <= MESSAGES_MAX:
            host = broker.advertised_host or broker.broker_name
            return _invalid(f"the broker[{host}] pop message's num is greater than {MESSAGES_MAX}")
        if (why := self.invisible_fault(pop.invisible_time)) is not None:
            return _invalid(why)
        return None

    def invisible_fault(self, invisible_ms: int) -> str | None:
        """Return why an invisible time is not accepted; None if it is."""
        longest_ms = self._settings.broker.timer_max_delay_sec * 1000
        if 0 <= invisible_ms <= longest_ms:
            return None
        return f"an invisible time of {invisible_ms} ms is not between 0 and {longest_ms} ms (timerMaxDelaySec)"

    def filter_of(self, pop: PopMessageHeader) -> MessageFilter | Reply:
        """Return the filter that a pop carries, or the reply that refuses it."""
        if not pop.exp:
            return PASSES_ALL
        return self._filters.carried(pop.consumer_group, pop.topic, pop.exp, pop.exp_type, 0)


class Pops:
    """Handler of pops."""

    def __init__(self, service: PopService, access: PopAccess, stats: BrokerStats, now_ms: Callable[[], int]) -> None:
        self._service, self._access, self._stats, self._now_ms = service, access, stats, now_ms

    def handle(self, pop: PopMessageHeader, _request: Command, connection: Connection) -> Reply | HeldPop[Reply]:
        """Return the messages, the reason why there are none, or a held reply."""
        now_ms = self._now_ms()
        born_ms = pop.born_time or now_ms
        if now_ms - born_ms - pop.poll_time > LATE_MS_MAX:
            return Reply(ResponseCode.POLLING_TIMEOUT, "the broker pop message is timeout too much")
        refusal = self._access.refusal(pop.topic, pop.consumer_group, pop.queue_id, connection.peer)
        refusal = refusal or self._access.number_refusal(pop)
        if refusal is not None:
            return refusal
        chosen = self._access.filter_of(pop)
        if isinstance(chosen, Reply):
            return chosen
        asked = _asked(pop, chosen)
        popped = self._service.pop(asked)
        if popped.count:
            return self._found(asked, popped)
        return self._hold(asked, popped, connection, min(born_ms, now_ms) + pop.poll_time - now_ms)

    def _hold(self, asked: PopRequest, popped: Popped, connection: Connection, wait_ms: int) -> Reply | HeldPop[Reply]:
        if wait_ms <= 0:
            return _empty(popped, ResponseCode.POLLING_TIMEOUT)

        def attempt() -> Reply | None:
            return self._again(asked, connection)

        held = self._service.held.hold(
            *(asked.topic, asked.group, max(asked.queue_id, -1)),
            *(attempt, lambda: attempt() or _empty(popped, ResponseCode.POLLING_TIMEOUT)),
            wait_ms=wait_ms,
            is_choosy=asked.is_ordered or asked.filter is not PASSES_ALL,
        )
        if held is None:
            return _empty(popped, ResponseCode.POLLING_FULL)
        if popped.rest:
            self._service.held.wake(asked.topic, asked.group)  # its filter has not seen all messages yet
        return held

    def _again(self, asked: PopRequest, connection: Connection) -> Reply | None:
        """Return the reply to a pop that was woken; None if there is still nothing.

        A peer that does not read its replies gets none: messages would be hidden, and fill memory. Group and topic are
        checked again, as an administrator may have closed them.
        """
        if connection.is_stalled:
            return None
        refusal = self._access.refusal(asked.topic, asked.group, asked.queue_id, connection.peer)
        if refusal is not None:
            return refusal
        popped = self._service.pop(asked)
        if popped.count:
            return self._found(asked, popped)
        if popped.rest:
            self._service.held.wake(asked.topic, asked.group)
        return None

    def _found(self, asked: PopRequest, popped: Popped) -> Reply:
        now_ms = self._now_ms()
        for batch in popped.batches:
            place = asked.group, asked.topic, batch.queue_id
            counts = len(batch.offsets), batch.size, batch.behind_bytes, batch.last_store_ms
            self._stats.found(*place, *counts, popped.pop_ms, now_ms)
        if popped.rest:
            self._service.held.wake(asked.topic, asked.group)
        return _reply(popped)


class PopViews:
    """Handlers that look without taking anything."""

    def __init__(self, service: PopService, access: PopAccess, now_ms: Callable[[], int]) -> None:
        self._service, self._access, self._now_ms = service, access, now_ms

    def peek(self, peek: PeekMessageHeader, _request: Command, connection: Connection) -> Reply:
        """Return the next messages of a group, which stay where they are."""
        refusal = self._access.refusal(peek.topic, peek.consumer_group, peek.queue_id, connection.peer, "peek")
        if refusal is not None:
            return refusal
        if not 0 < peek.max_msg_nums <= MESSAGES_MAX:
            return _invalid(f"peek of {peek.max_msg_nums} messages, limit {MESSAGES_MAX}")
        popped = self._service.peek(
            PopRequest(
                group=peek.consumer_group,
                topic=peek.topic,
                queue_id=peek.queue_id,
                count_max=peek.max_msg_nums,
                invisible_ms=0,
            )
        )
        return _reply(popped) if popped.count else _empty(popped, ResponseCode.PULL_NOT_FOUND)

    def notify(self, asked: NotificationHeader, _request: Command, connection: Connection) -> Reply | HeldPop[Reply]:
        """Say whether a pop would find something, as soon as it would."""
        refusal = self._access.refusal(asked.topic, asked.consumer_group, asked.queue_id, connection.peer, "peek")
        if refusal is not None:
            return refusal
        pop = PopRequest(
            group=asked.consumer_group,
            topic=asked.topic,
            queue_id=asked.queue_id,
            count_max=1,
            invisible_ms=0,
            is_ordered=asked.order,
            attempt_id=asked.attempt_id,
        )
        if self._service.has_messages(pop):
            return _notice(has_messages=True)
        now_ms = self._now_ms()
        wait_ms = min(asked.born_time or now_ms, now_ms) + asked.poll_time - now_ms
        if wait_ms <= 0:
            return _notice(has_messages=False)
        held = self._service.held.hold(
            *(pop.topic, pop.group, max(pop.queue_id, -1)),
            lambda: _notice(has_messages=True) if self._service.has_messages(pop) else None,
            lambda: _notice(has_messages=self._service.has_messages(pop)),
            wait_ms=wait_ms,
            is_choosy=True,
        )
        return held if held is not None else _notice(has_messages=False, is_full=True)

    def polling(self, asked: PollingInfoHeader, _request: Command, connection: Connection) -> Reply:
        """Return how many pops wait on a queue."""
        refusal = self._access.refusal(asked.topic, asked.consumer_group, asked.queue_id, connection.peer, "peek")
        if refusal is not None:
            return refusal
        count = self._service.held.count_of(asked.topic, asked.consumer_group, max(asked.queue_id, -1))
        return Reply(header=PollingInfoReplyHeader(polling_num=count))


def _asked(pop: PopMessageHeader, chosen: MessageFilter) -> PopRequest:
    return PopRequest(
        group=pop.consumer_group,
        topic=pop.topic,
        queue_id=pop.queue_id,
        count_max=pop.max_msg_nums,
        invisible_ms=pop.invisible_time,
        starts_at=pop.init_mode if pop.init_mode in (0, 1) else START_AT_OLDEST,
        is_ordered=pop.order,
        attempt_id=pop.attempt_id,
        filter=chosen,
    )


def _reply(popped: Popped) -> Reply:
    fields = _fields(popped)
    batches = [(mark_of(batch.topic), batch) for batch in popped.batches]
    fields["startOffsetInfo"] = start_offsets_text(
        (mark, batch.queue_id, batch.start_offset) for mark, batch in batches
    )
    fields["msgOffsetInfo"] = message_offsets_text((mark, batch.queue_id, batch.offsets) for mark, batch in batches)
    counts = ";".join(batch.order_counts for batch in popped.batches if batch.order_counts)
    if counts:
        fields["orderCountInfo"] = counts
    body = [part for batch in popped.batches for part in batch.slices]
    return Reply(ResponseCode.SUCCESS, "FOUND", None, body, fields)


def _empty(popped: Popped, code: ResponseCode) -> Reply:
    return Reply(code, _NOTHING, fields=_fields(popped))


def _fields(popped: Popped) -> dict[str, str]:
    """Return the encoded fields of a PopMessageReplyHeader that each reply has."""
    return {
        "popTime": str(popped.pop_ms),
        "invisibleTime": str(popped.invisible_ms),
        "reviveQid": str(popped.revive_queue_id),
        "restNum": str(popped.rest),
    }


def _notice(*, has_messages: bool, is_full: bool = False) -> Reply:
    return Reply(header=NotificationReplyHeader(has_msg=has_messages, polling_full=is_full))


def _invalid(remark: str) -> Reply:
    return Reply(ResponseCode.INVALID_PARAMETER, remark)
