"""Replies of request-reply messaging (codes 324 and 325): pushed to the requesting client (326).

    requester ─ message ─> broker ─> replier ─ 325 ─> broker ─ 326 ─> requester         the reply names the requester

Agrees with Java's ReplyMessageProcessor. Only the order differs: the reply is stored, if enabled, before it is pushed,
so that storing does not depend on the requester's speed.
"""

import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final

from hanabi.broker.handlers.send import host_of_peer
from hanabi.broker.send.intake import Intake
from hanabi.broker.send.put_replies import refusal
from hanabi.broker.send.store_host import StoreHost
from hanabi.broker.send.targets import SendTarget, SendTargets
from hanabi.broker.settings import Settings
from hanabi.broker.tables.topics import Topics
from hanabi.errors import BrokerError, MQError, TransportError
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import PutStatus
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.headers.send import AnySendMessageHeader, ReplyMessageHeader, SendMessageHeader, SendMessageV2Header
from hanabi.wire.message import property_names as names
from hanabi.wire.message.properties import format_properties, parse_properties

logger = logging.getLogger(__name__)

PUSH_SECONDS: Final = 10.0  # for the requester's acknowledgement
_NOT_STORED: Final = {"msgId": "0", "queueOffset": "0"}  # Java's client requires numbers

FindClient = Callable[[str], Connection | None]


def reply_handlers(
    intake: Intake,
    topics: Topics,
    settings: Settings,
    store_host: bytes,
    find_client: FindClient,
    now_ms: Callable[[], int],
    *,
    random_below: Callable[[int], int] = random.randrange,
) -> dict[int, Handler]:
    """Return the handlers of replies; *find_client* returns the connection of a client by its id."""
    replies = _Replies(intake, topics, settings, StoreHost(store_host), find_client, now_ms, random_below)
    return {
        RequestCode.SEND_REPLY_MESSAGE: Handler(SendMessageHeader, replies.handle),
        RequestCode.SEND_REPLY_MESSAGE_V2: Handler(SendMessageV2Header, replies.handle),
    }


class _Replies:
    def __init__(
        self,
        intake: Intake,
        topics: Topics,
        settings: Settings,
        store_host: StoreHost,
        find_client: FindClient,
        now_ms: Callable[[], int],
        random_below: Callable[[int], int],
    ) -> None:
        self._intake, self._settings, self._store_host = intake, settings, store_host
        self._find_client, self._now_ms, self._random_below = find_client, now_ms, random_below
        self._find_target = SendTargets(topics, settings, store_host).find

    def handle(
        self, header: AnySendMessageHeader, request: Command, connection: Connection
    ) -> Reply | Awaitable[Reply]:
        config = self._settings.broker
        fields = {"MSG_REGION": config.region_id, "TRACE_ON": str(config.trace_on).lower()}
        try:
            target = self._find_target(header, connection.peer)
            queue_id = header.queue_id if header.queue_id >= 0 else self._random_below(max(target.write_queues, 1))
        except MQError as error:
            return Reply(error.code, str(error), fields=fields)
        fields |= {"queueId": str(queue_id), **_NOT_STORED}
        if config.store_reply_messages:
            fields |= self._store(target, queue_id, header, request, connection)
        return self._pass_on(header, request, connection, fields)

    def _store(
        self,
        target: SendTarget,
        queue_id: int,
        header: AnySendMessageHeader,
        request: Command,
        connection: Connection,
    ) -> dict[str, str]:
        """Store the reply for later reading; return the fields that describe it."""
        message = PendingMessage(
            topic=target.topic,
            queue_id=queue_id,
            body=request.body,
            properties=(header.properties or "").encode(),
            born_timestamp_ms=header.born_timestamp,
            born_host=host_of_peer(connection.peer),
            store_host=self._store_host.raw,
            flag=header.flag,
            sys_flag=header.sys_flag,
            reconsume_times=header.reconsume_times or 0,
        )
        try:
            result = self._intake.put(message)
        except MQError as error:
            logger.warning("%s: an answer is not stored: %s", connection.peer, error)
            return {}
        if result.status is not PutStatus.PUT_OK:
            _, remark = refusal(result, self._settings.store)
            logger.warning("%s: an answer is not stored: %s", connection.peer, remark)
            return {}
        appended = result.appended[0]
        return {
            "msgId": self._store_host.message_id(appended.log_offset),
            "queueOffset": str(appended.queue_offset),
        }

    async def _pass_on(
        self, header: AnySendMessageHeader, request: Command, connection: Connection, fields: dict[str, str]
    ) -> Reply:
        try:
            await self._push(header, request, connection)
        except MQError as error:
            return Reply(error.code, str(error), fields=fields)
        return Reply(fields=fields)

    async def _push(self, header: AnySendMessageHeader, request: Command, connection: Connection) -> None:
        """Push the reply to the requesting client; raise the reason if that fails."""
        properties = parse_properties(header.properties or "")
        client_id = properties.get(names.REPLY_TO_CLIENT)
        if client_id is None:
            raise BrokerError(f"reply message properties[{names.REPLY_TO_CLIENT}] is null")
        client = self._find_client(client_id)
        if client is None:
            raise BrokerError(f"push reply message fail, channel of <{client_id}> not found.")
        now_ms = self._now_ms()
        properties[names.PUSH_REPLY_TIME] = str(now_ms)
        pushed = ReplyMessageHeader(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=header.queue_id,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            born_host=connection.peer,
            store_host=self._store_host.text,
            store_timestamp=now_ms,
            properties=format_properties(properties),
            reconsume_times=header.reconsume_times,
            unit_mode=header.unit_mode,
        )
        try:
            answer = await client.request(
                RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, pushed, request.body, timeout=PUSH_SECONDS
            )
        except TransportError as error:
            raise BrokerError(f"push reply message to {client_id} fail: {error}") from error
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(f"push reply message to {client_id} fail: {answer.remark or answer.code}")
