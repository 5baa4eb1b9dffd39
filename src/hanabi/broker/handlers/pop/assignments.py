"""Queues of consumers that let the broker rebalance (400), and the request mode of a group (401): pull or POP.

The modes of all groups (402) are in slave_tables.py. Agrees with QueryAssignmentProcessor (5.3.3).
"""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from hanabi.broker.clients.consumers import Consumers
from hanabi.broker.pop.assignment import POP, PULL, STRATEGIES, pop_share, pull_share
from hanabi.broker.settings import Settings
from hanabi.broker.tables.foreign_table import ForeignTable
from hanabi.broker.tables.groups import Groups
from hanabi.broker.tables.topics import Topics
from hanabi.message import MessageQueue
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.store.message_store import COPIES_ONLY
from hanabi.wire.bodies.heartbeat import MessageModel
from hanabi.wire.bodies.pop import (
    MessageQueueAssignment,
    MessageRequestMode,
    MessageRequestModeTable,
    QueryAssignmentReply,
    QueryAssignmentRequest,
)
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.header import NoHeader
from hanabi.wire.system_names import RETRY_PREFIX

BODY_BYTES_MAX: Final = 16 * 1024
MODES_MAX: Final = 100_000  # any peer can set one

Routes = Callable[[str], Awaitable[list[MessageQueue] | None]]


def assignment_handlers(
    consumers: Consumers,
    topics: Topics,
    groups: Groups,
    modes: ForeignTable[MessageRequestModeTable],
    routes: Routes,
    settings: Settings,
) -> dict[int, Handler]:
    """Return the handlers. *routes* returns the readable queues of a topic on all brokers."""
    assignments = Assignments(consumers, modes, routes, settings)
    changes = RequestModes(topics, groups, modes, settings, consumers.notify)
    return {
        RequestCode.QUERY_ASSIGNMENT: Handler(NoHeader, assignments.query, BODY_BYTES_MAX),
        RequestCode.SET_MESSAGE_REQUEST_MODE: Handler(NoHeader, changes.set, BODY_BYTES_MAX),
    }


class Assignments:
    """Answers of QUERY_ASSIGNMENT."""

    def __init__(
        self, consumers: Consumers, modes: ForeignTable[MessageRequestModeTable], routes: Routes, settings: Settings
    ) -> None:
        self._consumers, self._modes, self._routes, self._settings = consumers, modes, routes, settings

    async def query(self, _header: NoHeader, request: Command, _connection: Connection) -> Reply:
        """Return the queues of a member; no list means that it keeps those it has."""
        asked = decode_body(request.body, QueryAssignmentRequest)
        mode = self._mode(asked.topic, asked.consumer_group)
        queues = await self._routes(asked.topic)
        share = self._share(asked, mode, queues) if queues is not None else None
        found = None
        if share is not None:
            found = [MessageQueueAssignment(message_queue=queue, mode=mode.mode) for queue in dict.fromkeys(share)]
        return Reply(body=encode_body(QueryAssignmentReply(message_queue_assignments=found)))

    def _mode(self, topic: str, group: str) -> MessageRequestMode:
        known = self._modes.table.message_request_mode_map.get(topic, {}).get(group)
        if known is not None:
            return known
        broker = self._settings.broker
        is_retry = topic.startswith(RETRY_PREFIX)
        return MessageRequestMode(
            mode=PULL if is_retry else broker.default_request_mode, pop_share_queue_num=broker.default_pop_share_queues
        )

    def _share(
        self, asked: QueryAssignmentRequest, mode: MessageRequestMode, queues: list[MessageQueue]
    ) -> list[MessageQueue] | None:
        if asked.message_model == MessageModel.BROADCASTING.value:
            return queues
        members = self._consumers.client_ids(asked.consumer_group)
        strategy = STRATEGIES.get(asked.strategy_name or "")
        if not members or strategy is None:
            return None
        in_order = sorted(queues, key=lambda queue: (queue.broker_name, queue.queue_id))
        client_ids = sorted(members)
        if mode.mode == POP:
            return pop_share(in_order, client_ids, asked.client_id, strategy, mode.pop_share_queue_num)
        return pull_share(in_order, client_ids, asked.client_id, strategy)


class RequestModes:
    """Changes of the request mode."""

    def __init__(
        self,
        topics: Topics,
        groups: Groups,
        modes: ForeignTable[MessageRequestModeTable],
        settings: Settings,
        notify: Callable[[str], None],
    ) -> None:
        """*notify* makes the members of a group rebalance: while some pull and some pop, they get the same messages."""
        self._topics, self._groups, self._modes, self._settings = topics, groups, modes, settings
        self._notify = notify

    async def set(self, _header: NoHeader, request: Command, _connection: Connection) -> Reply:
        """Set how a group gets the messages of a topic. It is in the file when it is answered."""
        asked = decode_body(request.body, MessageRequestMode)
        refusal = self._refusal(asked)
        if refusal is not None:
            return refusal
        before = self._modes.table.message_request_mode_map
        topic, group = asked.topic or "", asked.consumer_group or ""
        if sum(map(len, before.values())) >= MODES_MAX and group not in before.get(topic, {}):
            return Reply(ResponseCode.SYSTEM_ERROR, f"there are {MODES_MAX} request modes, the limit")
        changed = {**before, topic: {**before.get(topic, {}), group: asked}}
        await self._modes.adopt(msgspec.structs.replace(self._modes.table, message_request_mode_map=changed))
        self._notify(group)
        return Reply()

    def _refusal(self, asked: MessageRequestMode) -> Reply | None:
        topic, group = asked.topic or "", asked.consumer_group or ""
        if self._settings.is_slave:
            return Reply(ResponseCode.SYSTEM_ERROR, COPIES_ONLY)
        if topic.startswith(RETRY_PREFIX):
            return Reply(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
        if self._topics.find(topic) is None:
            return Reply(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        if self._groups.find(group) is None:
            return Reply(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not exist")
        if asked.mode not in (PULL, POP):
            return Reply(ResponseCode.INVALID_PARAMETER, f"request mode {asked.mode[:40]!r}, known are PULL and POP")
        return None
