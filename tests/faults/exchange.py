"""A client of a broker process, by bytes: sends, commits, and looks at offsets and messages."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple, TypeVar

from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.headers.offset import GetMaxOffsetHeader, QueryConsumerOffsetHeader, UpdateConsumerOffsetHeader
from hanabi.wire.headers.pull import PullMessageHeader
from hanabi.wire.headers.transaction import EndTransactionHeader
from hanabi.wire.message import sysflag
from hanabi.wire.message.message_id import decode_offset_id
from hanabi.wire.message.record import Record, decode_records
from tests.broker.sending import header, text
from tests.broker.talk import Peer, connected

TOPIC: Final = "TopicTest"
GROUP: Final = "Readers"
QUEUE: Final = 0
_HAS_SUBSCRIPTION: Final = 4
_WAIT_S: Final = 60.0

T = TypeVar("T")


class Half(NamedTuple):
    """A transaction that has begun: what its producer knows of it."""

    group: str
    log_offset: int
    queue_offset: int
    key: str


class Exchange:
    """One connection. All messages go to one queue of one topic, which the first of them makes."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    async def send(
        self, body: bytes, properties: Mapping[str, str] | None = None, *, topic: str = TOPIC, half: bool = False
    ) -> Command:
        """Send one message; the answer, whatever it is."""
        flag = sysflag.with_transaction_type(0, sysflag.TRANSACTION_PREPARED) if half else 0
        sent = header(topic=topic, queue_id=QUEUE, properties=text(properties or {}), sys_flag=flag)
        return await self.peer.ask(RequestCode.SEND_MESSAGE_V2, sent, body)

    async def send_all(self, bodies: list[bytes], properties: Mapping[str, str] | None = None) -> None:
        """Send messages; all must be acknowledged."""
        for body in bodies:
            answer = await self.send(body, properties)
            assert answer.code == ResponseCode.SUCCESS, answer

    async def send_half(self, body: bytes, *, group: str = "Producers", topic: str = TOPIC) -> Half:
        """Begin a transaction."""
        key = f"key of {body!r}"
        names = {"UNIQ_KEY": key, "PGROUP": group, "TRAN_MSG": "true"}
        answer = await self.send(body, names, topic=topic, half=True)
        assert answer.code == ResponseCode.SUCCESS, answer
        fields = answer.fields()
        return Half(group, decode_offset_id(fields["msgId"]).log_offset, int(fields["queueOffset"]), key)

    async def end_transaction(self, half: Half, how: int) -> Command:
        """Commit or roll back; the answer, whatever it is."""
        end = EndTransactionHeader(
            producer_group=half.group,
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.log_offset,
            commit_or_rollback=how,
            from_transaction_check=False,
            msg_id=half.key,
        )
        return await self.peer.ask(RequestCode.END_TRANSACTION, end)

    async def commit(self, offset: int, *, topic: str = TOPIC) -> None:
        update = UpdateConsumerOffsetHeader(consumer_group=GROUP, topic=topic, queue_id=QUEUE, commit_offset=offset)
        answer = await self.peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, update)
        assert answer.code == ResponseCode.SUCCESS, answer

    async def committed(self, *, group: str = GROUP, topic: str = TOPIC) -> int:
        query = QueryConsumerOffsetHeader(consumer_group=group, topic=topic, queue_id=QUEUE)
        answer = await self.peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, query)
        return int(answer.fields()["offset"]) if answer.code == ResponseCode.SUCCESS else -1

    async def end(self, *, topic: str = TOPIC) -> int:
        """Return the offset that the next message of the queue will get."""
        answer = await self.peer.ask(RequestCode.GET_MAX_OFFSET, GetMaxOffsetHeader(topic=topic, queue_id=QUEUE))
        return int(answer.fields()["offset"])

    async def pull(self, offset: int, *, topic: str = TOPIC) -> list[Record]:
        answer = await self.ask_pull(offset, topic=topic)
        return decode_records(answer.body) if answer.code == ResponseCode.SUCCESS else []

    async def ask_pull(self, offset: int, *, topic: str = TOPIC) -> Command:
        """Pull at most 32 messages; the answer, whatever it is."""
        pull = PullMessageHeader(
            consumer_group=GROUP,
            topic=topic,
            queue_id=QUEUE,
            queue_offset=offset,
            max_msg_nums=32,
            sys_flag=_HAS_SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            sub_version=0,
            subscription="*",
            expression_type="TAG",
        )
        return await self.peer.ask(RequestCode.PULL_MESSAGE, pull)

    async def bodies(self, *, topic: str = TOPIC, since: int = 0) -> list[bytes]:
        """Return the bodies of all messages of the queue from *since* on."""
        found: list[bytes] = []
        at = since
        while at < await self.end(topic=topic):
            records = await self.pull(at, topic=topic)
            if not records:
                break
            found += [record.body for record in records]
            at = records[-1].queue_offset + 1
        return found


def talk(port: int, work: Callable[[Exchange], Awaitable[T]]) -> T:
    """Return what *work* returns, done with a client of the broker at *port*."""

    async def run() -> T:
        async with connected(("127.0.0.1", port)) as peer:
            return await work(Exchange(peer))

    return asyncio.run(run())
