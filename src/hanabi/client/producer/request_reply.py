"""Request-reply messages: pending requests, and the properties that both sides carry.

    requester ─ message ─> broker ─> consumer, which replies ─ 325 ─> broker ─ 326 ─> requester

The message carries the requester's client id (REPLY_TO_CLIENT), the request's id (CORRELATION_ID) and the timeout (TTL,
in milliseconds); the reply carries the same. No sockets here. Agrees with Java's RequestResponseFuture,
RequestFutureHolder, MessageUtil.createReplyMessage and ClientRemotingProcessor.receiveReplyMessage.
"""

import asyncio
import uuid
from typing import Final

from hanabi.errors import InvalidMessage, MQError
from hanabi.message import Address, StoredMessage
from hanabi.remoting.address import parse_address
from hanabi.wire.headers.send import ReplyMessageHeader
from hanabi.wire.message import property_names as names
from hanabi.wire.message.compression import decompress
from hanabi.wire.message.properties import parse_properties

REPLY: Final = "reply"
_NOWHERE: Final = Address("", 0)


def reply_topic(cluster: str) -> str:
    """Return the topic by which replies reach the brokers of *cluster*."""
    return f"{cluster}_REPLY_TOPIC"


def request_properties(client_id: str, correlation_id: str, timeout: float) -> dict[str, str]:
    """Return the properties that make a message a request."""
    return {
        names.CORRELATION_ID: correlation_id,
        names.REPLY_TO_CLIENT: client_id,
        names.TTL: str(int(timeout * 1000)),
    }


def is_request(message: StoredMessage) -> bool:
    """Return True if the sender of *message* waits for a reply."""
    return names.REPLY_TO_CLIENT in message.properties and names.CORRELATION_ID in message.properties


def reply_properties(request: StoredMessage) -> tuple[str, dict[str, str]]:
    """Return the topic of the reply to *request*, and the properties that route it to the requester."""
    told = request.properties
    missing = [name for name in (names.CLUSTER, names.REPLY_TO_CLIENT, names.CORRELATION_ID) if name not in told]
    if missing:
        raise InvalidMessage(
            f"topic {request.topic}: message {request.message_id} cannot be replied to, because it was not sent with "
            f"`request`: it has no {', '.join(missing)}"
        )
    carried: dict[str, str] = {
        name: told[name] for name in (names.CORRELATION_ID, names.REPLY_TO_CLIENT, names.TTL) if name in told
    }
    return reply_topic(told[names.CLUSTER]), {names.MESSAGE_TYPE: REPLY, **carried}


class PendingRequests:
    """Requests that wait for a reply, by correlation id. Invariant: each gets at most one reply, and is then
    removed.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[StoredMessage]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self) -> tuple[str, asyncio.Future[StoredMessage]]:
        """Return a new correlation id, and the future of its reply. The caller must `end` it."""
        correlation_id = str(uuid.uuid4())
        future: asyncio.Future[StoredMessage] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = future
        return correlation_id, future

    def end(self, correlation_id: str) -> None:
        future = self._waiting.pop(correlation_id, None)
        if future is not None and not future.cancel() and not future.cancelled():
            future.exception()  # mark as retrieved: the requester may be gone

    def arrived(self, header: ReplyMessageHeader, body: bytes, now_ms: int) -> bool:
        """Deliver a reply. Return False if no request waits for it: not ours, or too late."""
        properties = parse_properties(header.properties or "")
        future = self._waiting.get(properties.get(names.CORRELATION_ID, ""))
        if future is None or future.done():
            return False
        properties[names.ARRIVE_TIME] = str(now_ms)
        try:
            future.set_result(_message(header, body, properties))
        except MQError as error:  # an unsupported compression
            future.set_exception(error)
        return True

    def fail_all(self, error: MQError) -> None:
        """Fail all pending requests."""
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)


def _message(header: ReplyMessageHeader, body: bytes, properties: dict[str, str]) -> StoredMessage:
    """Decode the reply as a message. It need not be stored, so it has no log offset."""
    return StoredMessage(
        topic=header.topic,
        body=decompress(body, header.sys_flag),
        tags=properties.get(names.TAGS),
        keys=tuple(properties.get(names.KEYS, "").split()),
        properties=properties,
        flag=header.flag,
        queue_id=header.queue_id,
        queue_offset=0,
        message_id=properties.get(names.UNIQUE_KEY, ""),
        offset_message_id="",
        born_timestamp_ms=header.born_timestamp,
        born_host=_address(header.born_host),
        store_timestamp_ms=header.store_timestamp,
        store_host=_address(header.store_host),
        reconsume_times=header.reconsume_times or 0,
        prepared_offset=0,
        sys_flag=header.sys_flag,
        log_offset=0,
        size=0,
        body_crc=0,
    )


def _address(text: str) -> Address:
    """Parse a host for information only; an invalid one must not lose the reply."""
    try:
        return Address(*parse_address(text.lstrip("/")))
    except ValueError:
        return _NOWHERE
