"""RECALL_MESSAGE (370): a timed message is taken back before it is due, by the handle in the reply to its send.

The recall is itself a timed message, due in the same second, which names the key of the other; the timer drops both
(`delay/timer_delivery.py`). Success means that the recall is stored, not that the message existed. Agrees with
RecallMessageProcessor (5.3.3), except that `recallMessageEnable` is on unless it is switched off.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from hanabi.broker.handlers.send import host_of_peer
from hanabi.broker.send.intake import Intake
from hanabi.broker.send.put_replies import STORED
from hanabi.broker.send.store_host import StoreHost
from hanabi.broker.settings import Settings
from hanabi.broker.tables.topics import Topics
from hanabi.errors import MQError, RemoteProtocolError
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import PutStatus
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.headers.send import RecallMessageHeader
from hanabi.wire.message import property_names as names
from hanabi.wire.message.properties import format_properties
from hanabi.wire.recall_handle import RecallHandle, decode_recall_handle

BODY_BYTES_MAX: Final = 1024  # it has no body
TAG: Final = "_RECALL_TAG_"
_BODY: Final = b"0"


def recall_handlers(
    intake: Intake, topics: Topics, settings: Settings, store_host: bytes, now_ms: Callable[[], int]
) -> dict[int, Handler]:
    """Return the handler of recalls; *store_host* is as `send/store_host.py` makes it."""
    recalls = Recalls(intake, topics, settings, StoreHost(store_host), now_ms)
    return {RequestCode.RECALL_MESSAGE: Handler(RecallMessageHeader, recalls.handle, BODY_BYTES_MAX)}


class Recalls:
    """Handler of recalls."""

    def __init__(
        self, intake: Intake, topics: Topics, settings: Settings, store_host: StoreHost, now_ms: Callable[[], int]
    ) -> None:
        self._intake, self._topics, self._settings = intake, topics, settings
        self._store_host, self._now_ms = store_host, now_ms

    def handle(
        self, header: RecallMessageHeader, _request: Command, connection: Connection
    ) -> Reply | Awaitable[Reply]:
        """Store the recall, and answer with the unique key of the recalled message."""
        refusal = self._broker_refusal() or self._topic_refusal(header.topic)
        if refusal is not None:
            return self._reply(*refusal)
        try:
            handle = decode_recall_handle(header.recall_handle)
        except RemoteProtocolError as error:
            return self._reply(ResponseCode.ILLEGAL_OPERATION, str(error))
        if (why := self._handle_fault(header.topic, handle)) is not None:
            return self._reply(ResponseCode.ILLEGAL_OPERATION, f"recall failed, {why}")
        try:
            result = self._intake.put(self._cancellation(handle, header.producer_group or "", connection.peer))
        except MQError as error:  # the timer is switched off, for example
            return self._reply(ResponseCode.SYSTEM_ERROR, f"recall failed, execute error: {error}")
        if result.status not in STORED:
            return self._reply(ResponseCode.SYSTEM_ERROR, f"recall failed, execute error: {result.reason or ''}")
        fields = {"msgId": handle.unique_key, "MSG_REGION": self._settings.broker.region_id}
        recalled = Reply(ResponseCode.SUCCESS, None, None, b"", fields)
        durable = self._intake.durable(result)
        return recalled if durable is None else _after(durable, recalled)

    def _reply(self, code: int, remark: str) -> Reply:
        return Reply(code, remark, fields={"MSG_REGION": self._settings.broker.region_id})

    def _broker_refusal(self) -> tuple[int, str] | None:
        config = self._settings.broker
        if not config.recall_enabled:
            return ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden"
        if self._settings.is_slave:
            return ResponseCode.SLAVE_NOT_AVAILABLE, "recall failed, broker service not available"
        if self._now_ms() < config.start_accept_sends_at_ms:
            return ResponseCode.SERVICE_NOT_AVAILABLE, "recall failed, broker service not available"
        return None

    def _topic_refusal(self, topic: str) -> tuple[int, str] | None:
        if self._topics.find(topic) is None:
            return ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{topic}] not exist"
        return None

    def _handle_fault(self, topic: str, handle: RecallHandle) -> str | None:
        config = self._settings.broker
        if handle.topic != topic:
            return "topic not match"
        if handle.broker_name != config.broker_name:
            return "broker service not available"
        if not 0 < handle.at_ms - self._now_ms() < config.timer_max_delay_sec * 1_000:
            return "timestamp invalid"
        return None

    def _cancellation(self, handle: RecallHandle, group: str, peer: str) -> PendingMessage:
        now_ms = self._now_ms()
        properties = {
            names.TAGS: TAG,
            names.TIMER_DEL_UNIQUE_KEY: f"{handle.topic}+{handle.unique_key}",
            names.UNIQUE_KEY: handle.unique_key,
            names.TIMER_DELIVER_MS: str(handle.at_ms),
            names.BORN_TIMESTAMP: str(now_ms),
            names.PRODUCER_GROUP: group,
        }
        return PendingMessage(
            topic=handle.topic,
            queue_id=0,
            body=_BODY,
            properties=format_properties(properties).encode("utf-8", "surrogateescape"),
            born_timestamp_ms=now_ms,
            born_host=host_of_peer(peer),
            store_host=self._store_host.raw,
        )


async def _after(durable: Awaitable[PutStatus], reply: Reply) -> Reply:
    """Answer when the disk or the slaves have the recall; late ones change nothing, as with Apache."""
    await durable
    return reply
