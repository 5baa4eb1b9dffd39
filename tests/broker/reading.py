"""The parts between a consumer and the store, served on a free port without the rest of a broker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from hanabi.broker.clients.consumers import Consumers
from hanabi.broker.clients.notices import Notices
from hanabi.broker.clients.producers import Producers
from hanabi.broker.clients.queue_locks import QueueLocks
from hanabi.broker.config import BrokerConfig
from hanabi.broker.filters.consumer_filters import ConsumerFilters
from hanabi.broker.handlers.clients import client_handlers
from hanabi.broker.handlers.offsets import offset_handlers
from hanabi.broker.handlers.pull import pull_handlers
from hanabi.broker.offsets.commit_rules import CommitRules
from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.broker.pull.access import PullAccess
from hanabi.broker.pull.filters import PullFilters
from hanabi.broker.pull.long_polling import HeldPulls
from hanabi.broker.settings import Settings
from hanabi.broker.stats.broker_stats import BrokerStats
from hanabi.broker.tables.groups import Groups
from hanabi.broker.tables.topics import Topics
from hanabi.remoting.connection.turns import spread
from hanabi.store.config import StoreConfig
from hanabi.store.indexer import Hooks
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import MessageStore, PutStatus
from hanabi.testing.clock import ManualClock
from hanabi.wire.bodies.groups import SubscriptionGroupConfig
from hanabi.wire.bodies.heartbeat import ConsumerData, ConsumeType, HeartbeatData, MessageModel, SubscriptionData
from hanabi.wire.bodies.topics import TopicConfig
from hanabi.wire.codes import HeaderForm, RequestCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import encode_body
from hanabi.wire.headers.pull import PullMessageHeader, PullMessageReplyHeader
from hanabi.wire.message.hosts import encode_host
from hanabi.wire.message.properties import encode_properties
from hanabi.wire.message.record import decode_records
from hanabi.wire.message.tags import java_hash
from tests.broker.talk import Peer, connected, serving
from tests.store.opened import opened

HOST = encode_host("10.1.2.3", 10911)
TOPIC = "Orders"
GROUP = "billing"
QUEUES = 4
COMMIT, SUSPEND, SUBSCRIPTION = 1, 2, 4


class Reading:
    """A small store, and everything that a consumer of it meets."""

    def __init__(
        self, root: Path, broker: BrokerConfig | None = None, *, memory_bytes: int = 1 << 30, **store: object
    ) -> None:
        self.clock = ManualClock()
        config = StoreConfig(
            root=str(root),
            commit_log_segment_bytes=64 * 1024,
            consume_queue_segment_bytes=200,  # ten entries
            index_enabled=False,
        )
        store_config = msgspec.structs.replace(config, **store)
        self.settings = Settings(broker or BrokerConfig(broker_name="broker-a"), store_config)
        self.timer = ManualClock(0)  # of the held pulls
        self.held_pulls = HeldPulls(self.settings, self.timer)
        self.filters = ConsumerFilters(None, self.settings, self.clock)
        self.store = opened(
            MessageStore.open(
                store_config,
                now_ms=self.clock,
                hooks=Hooks(on_append=self.held_pulls.arrived, filter_bits=self.filters.filter_bits),
                disk_ratio=lambda _: 0.1,
                memory_bytes=memory_bytes,
            )
        )
        self.topics = Topics(None, self.settings, self.clock)
        self.topics.update(TopicConfig(topic_name=TOPIC, read_queue_nums=QUEUES, write_queue_nums=QUEUES))
        self.groups = Groups(None, self.settings, self.clock)
        self.stats = BrokerStats("DefaultCluster", self.clock)
        self.locks = QueueLocks(self.clock)
        self.consumers = Consumers(Notices(self.settings), self.filters, self.clock)
        self.offsets = ConsumerOffsets(None)
        self.commits = CommitRules(self.offsets, self.consumers)
        self.pull_filters = PullFilters(self.settings, self.consumers, self.filters)

    def change(self, **settings: object) -> None:
        """Put broker settings into force at run time."""
        self.settings.broker = msgspec.structs.replace(self.settings.broker, **settings)
        for callback in self.settings.on_change:
            callback()

    def change_topic(self, **settings: object) -> None:
        topic = self.topics.find(TOPIC)
        assert topic is not None
        self.topics.update(msgspec.structs.replace(topic, **settings))

    def change_group(self, **settings: object) -> None:
        self.groups.update(msgspec.structs.replace(SubscriptionGroupConfig(group_name=GROUP), **settings))

    @asynccontextmanager
    async def served(self) -> AsyncIterator[tuple[str, int]]:
        """Yield the address where all of it is served."""
        access = PullAccess(self.settings, self.topics, self.groups, self.pull_filters)
        handlers = {
            **pull_handlers(self.store, access, self.commits, self.held_pulls, self.stats, self.settings, self.clock),
            **offset_handlers(self.store, self.topics, self.groups, self.offsets, self.commits),
            **client_handlers(
                Producers(self.clock), self.consumers, self.locks, self.topics, self.groups, self.settings
            ),
        }
        async with serving(handlers, on_close=lambda connection: spread(self.consumers.leaving(connection))) as address:
            yield address

    def put(self, *bodies: bytes, topic: str = TOPIC, queue_id: int = 0, tags: str = "", **properties: str) -> None:
        """Store messages, one after the other."""
        if tags:
            properties["TAGS"] = tags
        raw = encode_properties(properties)
        for body in bodies:
            message = PendingMessage(topic, queue_id, body, raw, born_timestamp_ms=1, born_host=HOST, store_host=HOST)
            assert self.store.put(message).status is PutStatus.PUT_OK

    def delete_old(self) -> None:
        """Delete what is too old, a week later: all files of the log but the newest, and what points into them."""
        self.clock.ms += 7 * 24 * 3_600_000
        self.store.retention.ask()
        self.store.retention.run_round()

    async def later(self, ms: int) -> None:
        """Advance the clock, and wait until expired pulls are answered."""
        self.timer.ms += ms
        self.held_pulls.expire()

    async def until_held(self, count: int = 1) -> None:
        """Wait until so many pulls are held."""
        async with asyncio.timeout(60):
            while len(self.held_pulls) != count:  # noqa: ASYNC110 - a table has no events
                await asyncio.sleep(0)

    async def until_answered(self) -> None:
        """Wait until every pull that was woken has had its turn."""
        async with asyncio.timeout(60):
            while self.held_pulls.being_answered:  # noqa: ASYNC110
                await asyncio.sleep(0)

    def close(self) -> None:
        self.store.close()


@asynccontextmanager
async def consuming(reading: Reading, *, subscribed: str | None = "*", **subscription: Any) -> AsyncIterator[Peer]:
    """Yield a consumer that has told what it subscribes to, unless that is None; the store is closed at the end."""
    try:
        async with reading.served() as address, connected(address) as peer:
            if subscribed is not None:
                await subscribe(peer, subscribed, **subscription)
            yield peer
            reading.held_pulls.release()
    finally:
        reading.close()


async def subscribe(
    peer: Peer,
    expression: str = "*",
    *,
    group: str = GROUP,
    topic: str = TOPIC,
    kind: str = "TAG",
    version: int = 1,
    model: MessageModel = MessageModel.CLUSTERING,
    client_id: str = "10.0.0.1@1",
) -> None:
    """Send a heartbeat with one subscription, as a push consumer does."""
    tags = [tag.strip() for tag in expression.split("||")] if kind == "TAG" and expression != "*" else []
    wanted = SubscriptionData(
        topic=topic,
        sub_string=expression,
        sub_version=version,
        expression_type=kind,
        tags_set=tags,
        code_set=[java_hash(tag) for tag in tags],
    )
    data = ConsumerData(
        group_name=group,
        consume_type=ConsumeType.CONSUME_PASSIVELY,
        message_model=model,
        subscription_data_set=[wanted],
    )
    beat = HeartbeatData(client_id=client_id, consumer_data_set=[data])
    reply = await peer.ask(RequestCode.HEART_BEAT, None, encode_body(beat))
    assert reply.code == 0, reply.remark


def pull(offset: int = 0, **fields: object) -> PullMessageHeader:
    """Return a pull that does not wait."""
    plain = PullMessageHeader(
        consumer_group=GROUP,
        topic=TOPIC,
        queue_id=0,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=0,
        commit_offset=0,
        suspend_timeout_millis=15_000,
        sub_version=0,
        expression_type="TAG",
    )
    return msgspec.structs.replace(plain, **fields)


def ask(
    peer: Peer, offset: int = 0, *, form: HeaderForm = HeaderForm.JSON, **fields: object
) -> "asyncio.Future[Command]":
    """Send a pull that may be held; the answer is the future's result."""
    flag = fields.pop("sys_flag", SUSPEND)
    return peer.start(RequestCode.PULL_MESSAGE, pull(offset, sys_flag=flag, **fields), form=form)


async def read(peer: Peer, offset: int = 0, **fields: object) -> Command:
    """Pull, and wait for the answer."""
    return await peer.ask(RequestCode.PULL_MESSAGE, pull(offset, **fields))


def bodies(reply: Command) -> list[bytes]:
    assert reply.code == 0, (reply.code, reply.remark)
    return [record.body for record in decode_records(memoryview(reply.body))]


def place(reply: Command) -> tuple[int, int, int]:
    """Return where to go on, and between which offsets the queue lies."""
    header = reply.header(PullMessageReplyHeader)
    return header.next_begin_offset, header.min_offset, header.max_offset
