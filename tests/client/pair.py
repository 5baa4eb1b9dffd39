"""A master and a slave on real sockets, and a name server whose route a test changes: for who is asked what.

They answer as Apache's 4.9 does (PullMessageProcessor, ConsumerManageProcessor), as far as a client's rules need it.
Each topic has one queue.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from hanabi.client.config import ClientConfig
from hanabi.remoting.address import format_address, parse_address
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.remoting.transport.server import RemotingServer
from hanabi.wire.bodies.clients import ConsumerList
from hanabi.wire.bodies.heartbeat import HeartbeatData
from hanabi.wire.bodies.locks import LockReply, LockRequest
from hanabi.wire.bodies.route import BrokerData, QueueData, TopicRoute
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.header import Header, NoHeader
from hanabi.wire.headers.client import GetConsumerListByGroupHeader
from hanabi.wire.headers.namesrv import GetRouteHeader
from hanabi.wire.headers.offset import (
    GetMaxOffsetHeader,
    GetMinOffsetHeader,
    OffsetReplyHeader,
    QueryConsumerOffsetHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from hanabi.wire.headers.pull import PullMessageHeader, PullMessageReplyHeader
from hanabi.wire.headers.send import ConsumerSendMsgBackHeader, SendMessageReplyHeader, SendMessageV2Header
from hanabi.wire.headers.transaction import EndTransactionHeader
from hanabi.wire.message.record import encode_record

NAME = "broker-a"
HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"
BATCH = 8
MESSAGE_ID = "7F00000100002A9F0000000000000000"

Logs = dict[str, list[bytes]]  # topic -> bodies, in the order of their offsets


class Replica:
    """One of the two. `asked` has every request: its code and its header, or the heartbeat."""

    def __init__(self, broker_id: int, logs: Logs) -> None:
        self.broker_id, self._logs = broker_id, logs
        self.asked: list[tuple[RequestCode, Any]] = []
        self.offsets: dict[tuple[str, str], int] = {}  # group and topic -> committed
        self.suggests = 0
        self.end: int | None = None  # a slave that lags has so many messages
        self.first = 0  # and may have begun with this one
        self.hangs = False  # it answers nothing
        self.send_code = ResponseCode.SUCCESS  # of a send that is stored
        self.refusals: dict[RequestCode, Reply] = {}
        self._members: dict[str, set[str]] = {}
        self._server: RemotingServer | None = None
        self.address = ""

    @property
    def is_slave(self) -> bool:
        return self.broker_id != 0

    async def start(self) -> None:
        """Start, or start again at the same address: clients and locks are forgotten, offsets are not."""
        self._members = {}
        self._server = RemotingServer(self._handlers())
        host, port = parse_address(self.address) if self.address else ("127.0.0.1", 0)
        self.address = format_address(await self._server.start(host, port))

    async def kill(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop(0.0)

    def codes(self, *wanted: RequestCode) -> list[RequestCode]:
        """Return the codes of the requests so far, or those among *wanted*."""
        return [code for code, _ in self.asked if not wanted or code in wanted]

    def headers(self, code: RequestCode) -> list[Any]:
        return [header for each, header in self.asked if each == code]

    def _handlers(self) -> dict[int, Handler]:
        table: dict[RequestCode, tuple[type[Header], Any]] = {
            RequestCode.PULL_MESSAGE: (PullMessageHeader, self._pull),
            RequestCode.QUERY_CONSUMER_OFFSET: (QueryConsumerOffsetHeader, self._query_offset),
            RequestCode.UPDATE_CONSUMER_OFFSET: (UpdateConsumerOffsetHeader, self._commit),
            RequestCode.GET_MAX_OFFSET: (GetMaxOffsetHeader, self._max_offset),
            RequestCode.GET_MIN_OFFSET: (GetMinOffsetHeader, lambda *_: Reply(header=OffsetReplyHeader(offset=0))),
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: (SearchOffsetHeader, self._max_offset),
            RequestCode.SEND_MESSAGE_V2: (SendMessageV2Header, self._send),
            RequestCode.CONSUMER_SEND_MSG_BACK: (ConsumerSendMsgBackHeader, lambda *_: Reply()),
            RequestCode.END_TRANSACTION: (EndTransactionHeader, lambda *_: Reply()),
            RequestCode.HEART_BEAT: (NoHeader, self._heartbeat),
            RequestCode.UNREGISTER_CLIENT: (NoHeader, lambda *_: Reply()),
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: (GetConsumerListByGroupHeader, self._consumer_ids),
            RequestCode.LOCK_BATCH_MQ: (NoHeader, self._lock),
            RequestCode.UNLOCK_BATCH_MQ: (NoHeader, lambda *_: Reply()),
        }
        return {code: Handler(kind, self._noting(code, answer)) for code, (kind, answer) in table.items()}

    def _noting(self, code: RequestCode, answer: Any) -> Any:
        def handle(header: Header, request: Command, connection: Connection) -> "Reply | asyncio.Future[Reply]":
            data = decode_body(request.body, HeartbeatData) if code == RequestCode.HEART_BEAT else header
            self.asked.append((code, data))
            if self.hangs:
                return asyncio.get_running_loop().create_future()
            refusal = self.refusals.get(code)
            if refusal is not None:
                return refusal
            reply: Reply = answer(data, request)
            return reply

        return handle

    def _log(self, topic: str) -> list[bytes]:
        return self._logs.setdefault(topic, [])[: self.end]

    def _pull(self, header: PullMessageHeader, _: Command) -> Reply:
        log, offset = self._log(header.topic), header.queue_offset
        bodies = log[offset : offset + BATCH] if offset >= self.first else []
        code, following = ResponseCode.SUCCESS, offset + len(bodies)
        if not bodies:
            in_reach = self.first <= offset <= len(log)
            code = ResponseCode.PULL_NOT_FOUND if in_reach else ResponseCode.PULL_OFFSET_MOVED
            following = min(max(offset, self.first), len(log))
            if self.is_slave:
                following = offset
                if not in_reach:
                    code = ResponseCode.PULL_RETRY_IMMEDIATELY
        told = PullMessageReplyHeader(
            suggest_which_broker_id=self.suggests,
            next_begin_offset=following,
            min_offset=self.first,
            max_offset=len(log),
        )
        records = [_record(header.topic, offset + index, body) for index, body in enumerate(bodies)]
        return Reply(code, header=told, body=b"".join(records))

    def _query_offset(self, header: QueryConsumerOffsetHeader, _: Command) -> Reply:
        offset = self.offsets.get((header.consumer_group, header.topic))
        if offset is None:
            return Reply(ResponseCode.QUERY_NOT_FOUND, "Not found")
        return Reply(header=OffsetReplyHeader(offset=offset))

    def _commit(self, header: UpdateConsumerOffsetHeader, _: Command) -> Reply:
        self.offsets[header.consumer_group, header.topic] = header.commit_offset  # as Apache's: also a smaller one
        return Reply()

    def _max_offset(self, header: GetMaxOffsetHeader | SearchOffsetHeader, _: Command) -> Reply:
        return Reply(header=OffsetReplyHeader(offset=len(self._log(header.topic))))

    def _send(self, header: SendMessageV2Header, request: Command) -> Reply:
        if self.is_slave:
            return Reply(ResponseCode.SERVICE_NOT_AVAILABLE, "service not available now")
        log = self._logs.setdefault(header.topic, [])
        log.append(request.body)
        told = SendMessageReplyHeader(msg_id=MESSAGE_ID, queue_id=header.queue_id, queue_offset=len(log) - 1)
        return Reply(self.send_code, header=told)

    def _heartbeat(self, data: HeartbeatData, _: Command) -> Reply:
        for consumer in data.consumer_data_set:
            self._members.setdefault(consumer.group_name, set()).add(data.client_id)
        return Reply()

    def _consumer_ids(self, header: GetConsumerListByGroupHeader, _: Command) -> Reply:
        return Reply(body=encode_body(ConsumerList(consumer_id_list=sorted(self._members[header.consumer_group]))))

    def _lock(self, _: NoHeader, request: Command) -> Reply:
        wanted = decode_body(request.body, LockRequest).mq_set
        return Reply(body=encode_body(LockReply(lock_ok_mq_set=wanted)))


def _record(topic: str, offset: int, body: bytes) -> bytes:
    return bytes(
        encode_record(
            topic=topic.encode(),
            body=body,
            properties=b"",
            queue_id=0,
            born_timestamp_ms=1,
            born_host=HOST,
            store_timestamp_ms=2,
            store_host=HOST,
            queue_offset=offset,
            log_offset=1_000 * offset,
            sys_flag=0,
        )
    )


class Pair:
    """Both, and what the name server says of them: `known`, which is changed by hand."""

    def __init__(self) -> None:
        self.logs: Logs = {}
        self.master, self.slave = Replica(0, self.logs), Replica(1, self.logs)
        self.known: dict[int, str] = {}
        self.others: Mapping[str, Mapping[int, str]] = {}  # more brokers, by name
        self.route_questions = 0
        self.namesrv = ""
        self._server = RemotingServer({RequestCode.GET_ROUTEINFO_BY_TOPIC: Handler(GetRouteHeader, self._route)})

    def _route(self, header: GetRouteHeader, *_: object) -> Reply:
        self.route_questions += 1
        names = {NAME: self.known, **self.others}
        source = TopicRoute(
            broker_datas=[
                BrokerData(cluster="c", broker_name=name, broker_addrs=dict(known)) for name, known in names.items()
            ],
            queue_datas=[
                QueueData(broker_name=name, read_queue_nums=1, write_queue_nums=1, perm=6, topic_sys_flag=0)
                for name in names
            ],
        )
        return Reply(body=encode_body(source))

    def config(self, **options: Any) -> ClientConfig:
        """Make the configuration of a client of this pair, with short intervals."""
        short = {"persist_offsets_s": 0.05, "rebalance_s": 0.2, "route_refresh_s": 0.2}
        return ClientConfig(**{"namesrv": self.namesrv, **short, **options})

    @staticmethod
    def refusal(code: ResponseCode, remark: str) -> Reply:
        """Return an answer for `Replica.refusals`."""
        return Reply(code, remark)

    async def start(self) -> None:
        for replica in (self.master, self.slave):
            await replica.start()
            self.known[replica.broker_id] = replica.address
        self.namesrv = format_address(await self._server.start("127.0.0.1", 0))

    async def lose(self, replica: Replica) -> None:
        """Kill *replica*; the name server notices at once."""
        await replica.kill()
        self.known.pop(replica.broker_id)

    async def bring_back(self, replica: Replica) -> None:
        await replica.start()
        self.known[replica.broker_id] = replica.address

    async def close(self) -> None:
        for replica in (self.master, self.slave):
            await replica.kill()
        await self._server.stop(0.0)


@asynccontextmanager
async def running_pair() -> AsyncIterator[Pair]:
    """Yield a running pair, both of which the name server knows."""
    pair = Pair()
    try:
        await pair.start()
        yield pair
    finally:
        await pair.close()
