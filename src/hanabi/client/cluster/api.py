"""Typed requests of a client: one coroutine each, header in, header out; errors name the peer that refused.

Signs requests if there are credentials. The caller chooses the peer and decides about retries. Agrees with Java's
MQClientAPIImpl in codes and fields. Names of topics and groups are those on the wire, with their namespace.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from hanabi.client.cluster.signing import sign
from hanabi.client.cluster.unresponsive_brokers import UnresponsiveBrokers
from hanabi.client.config import Credentials
from hanabi.errors import BrokerError, NoPermission, TransportError
from hanabi.message import MessageQueue
from hanabi.remoting.transport.connector import Connector
from hanabi.wire.bodies.clients import ConsumerList
from hanabi.wire.bodies.heartbeat import CheckClientRequest, HeartbeatData, SubscriptionData
from hanabi.wire.bodies.locks import LockReply, LockRequest
from hanabi.wire.bodies.route import ClusterInfo, TopicList, TopicRoute
from hanabi.wire.codes import RequestCode, ResponseCode, request_name
from hanabi.wire.command import Command
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.header import Header, header_fields
from hanabi.wire.headers.client import GetConsumerListByGroupHeader, UnregisterClientHeader
from hanabi.wire.headers.namesrv import GetRouteHeader
from hanabi.wire.headers.offset import (
    GetEarliestMsgStoretimeHeader,
    GetEarliestMsgStoretimeReplyHeader,
    GetMaxOffsetHeader,
    GetMinOffsetHeader,
    OffsetReplyHeader,
    QueryConsumerOffsetHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from hanabi.wire.headers.pull import PullMessageHeader, PullMessageReplyHeader
from hanabi.wire.headers.query import QueryMessageHeader, ViewMessageHeader
from hanabi.wire.headers.send import (
    ConsumerSendMsgBackHeader,
    SendMessageV2Header,
)
from hanabi.wire.headers.topic import CreateTopicHeader
from hanabi.wire.headers.transaction import EndTransactionHeader

TIMEOUT_SECONDS: Final = 3.0

SENT: Final = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    }
)  # the message is stored, perhaps less safely than configured
PULLED: Final = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    }
)
_SUCCESS: Final = frozenset({ResponseCode.SUCCESS})
# Refusals of unknown clients: 4.x has no code for it; 5.x and our broker answer so to unsigned requests.
_STRANGER_REMARKS: Final = ("AclException", "username cannot be null", "No accessKey is configured")


class PullReply(NamedTuple):
    """Response to a pull: consecutive records if `code` is SUCCESS, and always the next offset."""

    code: int
    header: PullMessageReplyHeader
    body: bytes


class Api:
    """Typed requests over a connector. `silent` has the addresses that did not answer recently.

    `broker_names` has the names of the brokers by address, for errors; the owner of the routes fills it.
    """

    def __init__(self, connector: Connector, credentials: Credentials | None = None) -> None:
        self._connector = connector
        self._credentials = credentials
        self.broker_names: dict[str, str] = {}
        self.silent = UnresponsiveBrokers()

    # Any request

    async def ask(
        self,
        address: str,
        code: int,
        header: Header | Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout: float = TIMEOUT_SECONDS,  # noqa: ASYNC109 - see Connection.request
        accept: frozenset[int] = _SUCCESS,
    ) -> Command:
        """Send a request; return the response if its code is in *accept*, else raise."""
        if self._credentials is not None:
            header = sign(_fields(header), body, self._credentials)
        try:
            reply = await self._connector.request(address, code, header, body, timeout=timeout)
        except TransportError as error:
            self.silent.failed(address, error)
            raise self._not_answered(code, address, error) from error
        self.silent.answered(address)
        if reply.code in accept:
            return reply
        raise self._refused(code, address, reply)

    def ask_at_once(
        self,
        address: str,
        code: int,
        header: Header | Mapping[str, str] | None,
        body: bytes,
        timeout: float,
        ended: Callable[[Command | TransportError], None],
    ) -> bool:
        """Send without waiting, otherwise as `ask`: *ended* is called with an argument for `outcome`. False: not now,
        use `ask`.
        """
        if self._credentials is not None:
            header = sign(_fields(header), body, self._credentials)
        return self._connector.ask_at_once(address, code, header, body, timeout, ended)

    def outcome(self, address: str, code: int, ended: Command | TransportError, accept: frozenset[int]) -> Command:
        """Return the response behind *ended* if its code is in *accept*, else raise."""
        if isinstance(ended, TransportError):
            self.silent.failed(address, ended)
            raise self._not_answered(code, address, ended) from ended
        self.silent.answered(address)
        if ended.code in accept:
            return ended
        raise self._refused(code, address, ended)

    async def request_oneway(
        self,
        address: str,
        code: int,
        header: Header | Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout: float = TIMEOUT_SECONDS,  # noqa: ASYNC109 - see Connection.request
    ) -> None:
        """Send a one-way request."""
        if self._credentials is not None:
            header = sign(_fields(header), body, self._credentials)
        try:
            await self._connector.send_oneway(address, code, header, body, timeout=timeout)
        except TransportError as error:
            raise self._not_answered(code, address, error) from error

    def _not_answered(self, code: int, address: str, error: TransportError) -> TransportError:
        reason = str(error).removeprefix(f"{address}: ")
        return type(error)(f"{self._asked(code, address)}: {reason}")

    def _asked(self, code: int, address: str) -> str:
        name = self.broker_names.get(address)
        return f"{request_name(code)} to {name} ({address})" if name else f"{request_name(code)} to {address}"

    def _refused(self, code: int, address: str, reply: Command) -> BrokerError:
        asked, remark = self._asked(code, address), reply.remark or ""
        denied = any(words in remark for words in _STRANGER_REMARKS)
        if not denied and reply.code != ResponseCode.NO_PERMISSION:
            return BrokerError.from_reply(reply.code, reply.remark, asked=asked)
        if self._credentials is not None:
            asked += f", signed with access key {self._credentials.access_key}"
        elif denied:
            asked += ", not signed (set access=Credentials(access_key, secret_key))"
        return NoPermission(f"{asked}: {remark or 'no reason given'} (code {reply.code})")

    # Sending

    async def send_message(
        self,
        address: str,
        header: SendMessageV2Header | Mapping[str, str],
        body: bytes,
        timeout: float = TIMEOUT_SECONDS,  # noqa: ASYNC109
        *,
        code: int = RequestCode.SEND_MESSAGE_V2,
    ) -> Command:
        """Store a message, or with code SEND_BATCH_MESSAGE several; with SEND_REPLY_MESSAGE_V2, forward a reply.

        The code of the response is one of `SENT`, its header a `SendMessageReplyHeader`; other codes are raised.
        """
        return await self.ask(address, code, header, body, timeout=timeout, accept=SENT)

    async def send_oneway(
        self,
        address: str,
        header: SendMessageV2Header | Mapping[str, str],
        body: bytes,
        timeout: float = TIMEOUT_SECONDS,  # noqa: ASYNC109
        *,
        code: int = RequestCode.SEND_MESSAGE_V2,
    ) -> None:
        """Send a message one-way; its result stays unknown."""
        await self.request_oneway(address, code, header, body, timeout=timeout)

    async def send_back(
        self,
        address: str,
        header: ConsumerSendMsgBackHeader,
        timeout: float = TIMEOUT_SECONDS,  # noqa: ASYNC109
    ) -> None:
        """Have a failed message redelivered to its group later."""
        await self.ask(address, RequestCode.CONSUMER_SEND_MSG_BACK, header, timeout=timeout)

    async def end_transaction(
        self,
        address: str,
        header: EndTransactionHeader,
        timeout: float = TIMEOUT_SECONDS,  # noqa: ASYNC109
    ) -> None:
        """Commit or roll back; one-way, as in Java: a broker that did not get it asks."""
        await self.request_oneway(address, RequestCode.END_TRANSACTION, header, timeout=timeout)

    # Pulls and offsets

    async def pull_message(
        self,
        address: str,
        header: PullMessageHeader,
        timeout: float,  # noqa: ASYNC109
        *,
        code: int = RequestCode.PULL_MESSAGE,
    ) -> PullReply:
        """Pull messages of one queue. *timeout* must be longer than the broker may hold the request."""
        reply = await self.ask(address, code, header, timeout=timeout, accept=PULLED)
        return PullReply(reply.code, reply.header(PullMessageReplyHeader), reply.body)

    async def query_consumer_offset(
        self,
        address: str,
        group: str,
        queue: MessageQueue,
        timeout: float = TIMEOUT_SECONDS,  # noqa: ASYNC109
        *,
        set_zero_if_not_found: bool | None = None,
    ) -> int | None:
        """Return the group's offset in the queue; None if the broker has none."""
        header = QueryConsumerOffsetHeader(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            set_zero_if_not_found=set_zero_if_not_found,
            target_broker=queue.broker_name,
        )
        reply = await self.ask(
            address,
            RequestCode.QUERY_CONSUMER_OFFSET,
            header,
            timeout=timeout,
            accept=frozenset({ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND}),
        )
        return None if reply.code == ResponseCode.QUERY_NOT_FOUND else reply.header(OffsetReplyHeader).offset

    async def update_consumer_offset(
        self,
        address: str,
        group: str,
        queue: MessageQueue,
        offset: int,
        timeout: float = TIMEOUT_SECONDS,  # noqa: ASYNC109
        *,
        oneway: bool = True,
        increase_only: bool = False,
    ) -> None:
        """Commit *offset*: the group has consumed everything below. One-way in periodic commits, with a response on
        request.

        With *increase_only*, Hanabi's brokers keep a larger offset; Apache's ignore the flag.
        """
        header = UpdateConsumerOffsetHeader(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
            target_broker=queue.broker_name,
            increase_only=increase_only or None,
        )
        if oneway:
            await self.request_oneway(address, RequestCode.UPDATE_CONSUMER_OFFSET, header, timeout=timeout)
        else:
            await self.ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, header, timeout=timeout)

    async def get_max_offset(
        self,
        address: str,
        queue: MessageQueue,
        timeout: float = TIMEOUT_SECONDS,  # noqa: ASYNC109
        *,
        committed: bool | None = None,
    ) -> int:
        """Return the offset of the next message of this queue."""
        header = GetMaxOffsetHeader(
            topic=queue.topic, queue_id=queue.queue_id, committed=committed, target_broker=queue.broker_name
        )
        reply = await self.ask(address, RequestCode.GET_MAX_OFFSET, header, timeout=timeout)
        return reply.header(OffsetReplyHeader).offset

    async def get_min_offset(
        self,
        address: str,
        queue: MessageQueue,
        timeout: float = TIMEOUT_SECONDS,  # noqa: ASYNC109
    ) -> int:
        """Return the oldest stored offset of this queue."""
        header = GetMinOffsetHeader(topic=queue.topic, queue_id=queue.queue_id, target_broker=queue.broker_name)
        reply = await self.ask(address, RequestCode.GET_MIN_OFFSET, header, timeout=timeout)
        return reply.header(OffsetReplyHeader).offset

    async def search_offset(
        self,
        address: str,
        queue: MessageQueue,
        timestamp_ms: int,
        timeout: float = TIMEOUT_SECONDS,  # noqa: ASYNC109
        *,
        boundary: str | None = None,
    ) -> int:
        """Return the offset of the message stored at this time."""
        header = SearchOffsetHeader(
            topic=queue.topic,
            queue_id=queue.queue_id,
            timestamp=timestamp_ms,
            boundary_type=boundary,
            target_broker=queue.broker_name,
        )
        reply = await self.ask(address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header, timeout=timeout)
        return reply.header(OffsetReplyHeader).offset

    async def earliest_store_time(
        self,
        address: str,
        queue: MessageQueue,
        timeout: float = TIMEOUT_SECONDS,  # noqa: ASYNC109
    ) -> int:
        """Return the store time of the oldest message of this queue, in milliseconds."""
        header = GetEarliestMsgStoretimeHeader(
            topic=queue.topic, queue_id=queue.queue_id, target_broker=queue.broker_name
        )
        reply = await self.ask(address, RequestCode.GET_EARLIEST_MSG_STORETIME, header, timeout=timeout)
        return reply.header(GetEarliestMsgStoretimeReplyHeader).timestamp

    # Stored messages

    async def view_message(
        self,
        address: str,
        log_offset: int,
        timeout: float = TIMEOUT_SECONDS,  # noqa: ASYNC109
        *,
        topic: str | None = None,
    ) -> bytes:
        """Return the record at this log offset."""
        header = ViewMessageHeader(offset=log_offset, topic=topic)
        return (await self.ask(address, RequestCode.VIEW_MESSAGE_BY_ID, header, timeout=timeout)).body

    async def query_message(
        self,
        address: str,
        header: QueryMessageHeader,
        timeout: float = TIMEOUT_SECONDS,  # noqa: ASYNC109
    ) -> bytes:
        """Return the records with a key, concatenated; empty if there are none."""
        accept = frozenset({ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND})
        return (await self.ask(address, RequestCode.QUERY_MESSAGE, header, timeout=timeout, accept=accept)).body

    # Membership

    async def heartbeat(
        self,
        address: str,
        data: HeartbeatData,
        timeout: float = TIMEOUT_SECONDS,  # noqa: ASYNC109
    ) -> int:
        """Send a heartbeat with our producers and consumers; return the broker's version."""
        reply = await self.ask(address, RequestCode.HEART_BEAT, None, encode_body(data), timeout=timeout)
        return reply.version

    async def unregister(
        self,
        address: str,
        client_id: str,
        *,
        producer_group: str | None = None,
        consumer_group: str | None = None,
        timeout: float = TIMEOUT_SECONDS,  # noqa: ASYNC109
    ) -> None:
        """Leave this group."""
        header = UnregisterClientHeader(
            client_id=client_id, producer_group=producer_group, consumer_group=consumer_group
        )
        await self.ask(address, RequestCode.UNREGISTER_CLIENT, header, timeout=timeout)

    async def consumer_ids(
        self,
        address: str,
        group: str,
        timeout: float = TIMEOUT_SECONDS,  # noqa: ASYNC109
    ) -> list[str]:
        """Return the client ids of the members of a group."""
        header = GetConsumerListByGroupHeader(consumer_group=group)
        reply = await self.ask(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header, timeout=timeout)
        return decode_body(reply.body, ConsumerList).consumer_id_list

    async def check_client(
        self,
        address: str,
        client_id: str,
        group: str,
        subscription: SubscriptionData,
        timeout: float = TIMEOUT_SECONDS,  # noqa: ASYNC109
    ) -> None:
        """Have the broker check this subscription. Raise SubscriptionParseFailed or another BrokerError if it
        refuses.
        """
        request = CheckClientRequest(client_id=client_id, group=group, subscription_data=subscription)
        await self.ask(address, RequestCode.CHECK_CLIENT_CONFIG, None, encode_body(request), timeout=timeout)

    async def lock_queues(
        self,
        address: str,
        client_id: str,
        group: str,
        queues: Sequence[MessageQueue],
        timeout: float = 1.0,  # noqa: ASYNC109 - Java's, shorter than elsewhere
    ) -> set[MessageQueue]:
        """Lock these queues; return those that are ours now."""
        request = LockRequest(client_id=client_id, consumer_group=group, mq_set=list(queues))
        reply = await self.ask(address, RequestCode.LOCK_BATCH_MQ, None, encode_body(request), timeout=timeout)
        return set(decode_body(reply.body, LockReply).lock_ok_mq_set)

    async def unlock_queues(
        self,
        address: str,
        client_id: str,
        group: str,
        queues: Sequence[MessageQueue],
        timeout: float = 1.0,  # noqa: ASYNC109
        *,
        oneway: bool = False,
    ) -> None:
        """Unlock these queues."""
        body = encode_body(LockRequest(client_id=client_id, consumer_group=group, mq_set=list(queues)))
        if oneway:
            await self.request_oneway(address, RequestCode.UNLOCK_BATCH_MQ, None, body, timeout=timeout)
        else:
            await self.ask(address, RequestCode.UNLOCK_BATCH_MQ, None, body, timeout=timeout)

    # Topics

    async def topic_route(
        self,
        address: str,
        topic: str,
        timeout: float = TIMEOUT_SECONDS,  # noqa: ASYNC109
    ) -> TopicRoute:
        """Return the route of *topic*, from the name server at *address*."""
        header = GetRouteHeader(topic=topic)
        reply = await self.ask(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, header, timeout=timeout)
        return decode_body(reply.body, TopicRoute)

    async def cluster_info(self, address: str, timeout: float = TIMEOUT_SECONDS) -> ClusterInfo:  # noqa: ASYNC109
        """Return all brokers, from the name server at *address*."""
        reply = await self.ask(address, RequestCode.GET_BROKER_CLUSTER_INFO, timeout=timeout)
        return decode_body(reply.body, ClusterInfo)

    async def topic_list(self, address: str, timeout: float = TIMEOUT_SECONDS) -> list[str]:  # noqa: ASYNC109
        """Return all topics, from the name server at *address*."""
        reply = await self.ask(address, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, timeout=timeout)
        return decode_body(reply.body, TopicList).topic_list

    async def create_topic(
        self,
        address: str,
        header: CreateTopicHeader,
        timeout: float = 5.0,  # noqa: ASYNC109
    ) -> None:
        """Create or change a topic on the broker at *address*."""
        await self.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header, timeout=timeout)


def _fields(header: Header | Mapping[str, str] | None) -> Mapping[str, str]:
    if isinstance(header, Header):
        return header_fields(header)
    return header or {}
