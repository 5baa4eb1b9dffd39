"""Requests to clients on behalf of an operator: reset offsets, report offsets, report status, consume a message now.

Each reply is ready for the operator, with Java's code if the client is offline, too old or too slow. Does not know the
store. Agrees with Java's Broker2Client and AdminBrokerProcessor.callConsumer.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from hanabi.broker.clients.client import version_name
from hanabi.broker.clients.consumer_group import Member
from hanabi.broker.clients.consumers import Consumers
from hanabi.errors import MQError, RequestTimeoutError, SystemBusy, TransportError
from hanabi.message import MessageQueue
from hanabi.remoting.connection.dispatch import Reply
from hanabi.wire.bodies.offsets import ConsumerStatus, QueueAndOffset, ResetOffset, ResetOffsetList
from hanabi.wire.codes import Language, RequestCode, ResponseCode
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.header import Header
from hanabi.wire.headers.offset import GetConsumerStatusHeader, ResetOffsetHeader

V3_0_7_SNAPSHOT = 28  # ordinals of Java's MQVersion: clients from here on support a reset and report their offsets,
V3_1_8_SNAPSHOT = 62  # and from here on report their status

CALL_SECONDS = 10.0
STATUS_SECONDS = 5.0
READ_AT_ONCE_BYTES = 16 * 1024  # of a map whose keys are objects: a few milliseconds
CALLS_MAX = 32  # at the same time

logger = logging.getLogger(__name__)


class ClientCalls:
    """Requests to members of consumer groups, on the connections that they opened."""

    def __init__(
        self, consumers: Consumers, *, call_seconds: float = CALL_SECONDS, status_seconds: float = STATUS_SECONDS
    ) -> None:
        self._consumers = consumers
        self._call_seconds = call_seconds
        self._status_seconds = status_seconds
        self._under_way = 0
        self._reading = asyncio.Lock()

    def why_not_reset(self, group: str) -> Reply | None:
        """Return the reason why the members of *group* cannot be reset; None if they can."""
        return _too_old(self._members(group), V3_0_7_SNAPSHOT)

    def is_online(self, group: str) -> bool:
        return self._consumers.find_group(group) is not None

    def send_reset(self, asked: ResetOffsetHeader, offsets: Mapping[MessageQueue, int], asker: str) -> None:
        """Send the new offsets to all members. *asker*: client language of the requester. If a member's language is
        unknown and the requester is C++, send the list format that C++ clients expect."""
        header = ResetOffsetHeader(
            topic=asked.topic, group=asked.group, timestamp=asked.timestamp, is_force=asked.is_force
        )
        as_map, as_list = _reset_bodies(offsets)
        for member in self._members(asked.group):
            body = as_list if _reads_list(member, asker) else as_map
            try:
                member.connection.send_oneway(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, body)
            except TransportError as error:
                logger.warning(
                    "reset of group %s: %s could not be notified: %s", asked.group, member.client.client_id, error
                )

    async def consumer_status(self, asked: GetConsumerStatusHeader) -> Reply:
        """Return the offsets that the members of a group hold in memory, by client id; of one client if one is named.
        Members that do not answer are left out."""
        members = self._members(asked.group)
        if not members:
            remark = f"No Any Consumer online in the consumer group: [{asked.group}]"
            return Reply(ResponseCode.SYSTEM_ERROR, remark)
        if (refusal := _too_old(members, V3_0_7_SNAPSHOT)) is not None:
            return refusal
        if client_id := (asked.client_addr or "").strip():
            members = [member for member in members if member.client.client_id == client_id]
        header = GetConsumerStatusHeader(topic=asked.topic, group=asked.group)
        with self._one_more():
            tables = await asyncio.gather(*(self._status_of(member, header) for member in members))
        known = {
            member.client.client_id: table for member, table in zip(members, tables, strict=True) if table is not None
        }
        return Reply(body=encode_body(ConsumerStatus(consumer_table=known)))

    async def _status_of(self, member: Member, header: GetConsumerStatusHeader) -> dict[MessageQueue, int] | None:
        try:
            answer = await member.connection.request(
                RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, header, timeout=self._status_seconds
            )
            if answer.code != ResponseCode.SUCCESS or not answer.body:
                return None
            return (await self._read_status(answer.body)).message_queue_table
        except MQError as error:
            logger.warning("group %s: no offsets of %s: %s", header.group, member.client.client_id, error)
            return None

    async def _read_status(self, body: bytes) -> ConsumerStatus:
        """Decode a client's offsets: long tables in a thread, one at a time, as threads share the interpreter."""
        if len(body) <= READ_AT_ONCE_BYTES:
            return decode_body(body, ConsumerStatus)
        async with self._reading:
            return await asyncio.to_thread(decode_body, body, ConsumerStatus)

    async def forward(self, code: int, group: str, client_id: str | None, header: Header, body: bytes = b"") -> Reply:
        """Forward a request to one client and return its reply."""
        member = self._consumers.find_member(group, client_id) if client_id is not None else None
        if member is None:
            return Reply(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
        version = member.client.version
        if version < V3_1_8_SNAPSHOT:
            return Reply(
                ResponseCode.SYSTEM_ERROR,
                f"The Consumer <{client_id}> Version <{version_name(version)}> too low to finish,"
                " please upgrade it to V3_1_8_SNAPSHOT",
            )
        try:
            with self._one_more():
                answer = await member.connection.request(code, header, body, timeout=self._call_seconds)
        except RequestTimeoutError as error:
            return Reply(ResponseCode.CONSUME_MSG_TIMEOUT, f"consumer <{group}> <{client_id}> Timeout: {error}")
        except TransportError as error:
            return Reply(ResponseCode.SYSTEM_ERROR, f"invoke consumer <{group}> <{client_id}> Exception: {error}")
        return Reply(answer.code, answer.remark, body=answer.body)

    @contextmanager
    def _one_more(self) -> Iterator[None]:
        """Count a call in flight. A client may answer with megabytes, so calls are few; more are refused. Queuing them
        would also delay later requests, perhaps the answer of a client that asks about itself."""
        if self._under_way >= CALLS_MAX:
            raise SystemBusy(f"[OVERLOAD]system busy: {self._under_way} clients are being asked already, try again")
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    def _members(self, group: str) -> list[Member]:
        found = self._consumers.find_group(group)
        return list(found.members.values()) if found is not None else []


def _too_old(members: list[Member], version_min: int) -> Reply | None:
    """Return the refusal if one of *members* is too old. No member is asked then: a group is reset whole or not at
    all."""
    for member in members:
        if member.client.version < version_min:
            logger.warning("%s is too old for that: version %d", member.client.client_id, member.client.version)
            remark = f"the client does not support this feature. version={version_name(member.client.version)}"
            return Reply(ResponseCode.SYSTEM_ERROR, remark)
    return None


def _reads_list(member: Member, asker: str) -> bool:
    """Return whether the member needs the list format: C++ clients cannot read objects as keys."""
    cpp = Language.CPP.name
    return member.client.language == cpp or (asker == cpp and member.client.language == Language.OTHER.name)


def _reset_bodies(offsets: Mapping[MessageQueue, int]) -> tuple[bytes, bytes]:
    """Return the table encoded for most clients, and for C++ clients."""
    entries = [
        QueueAndOffset(broker_name=queue.broker_name, offset=offset, queue_id=queue.queue_id, topic=queue.topic)
        for queue, offset in offsets.items()
    ]
    return encode_body(ResetOffset(offset_table=dict(offsets))), encode_body(ResetOffsetList(offset_table=entries))
