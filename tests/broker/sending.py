"""The parts that take messages in, around a small store, served on a free port without the rest of a broker."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from hanabi.broker.config import BrokerConfig
from hanabi.broker.delay.divert import Diverter
from hanabi.broker.handlers.reply import reply_handlers
from hanabi.broker.handlers.send import send_handlers
from hanabi.broker.handlers.send_back import send_back_handlers
from hanabi.broker.send.flow_control import FlowControl
from hanabi.broker.send.intake import Intake
from hanabi.broker.settings import Settings
from hanabi.broker.stats.broker_stats import BrokerStats
from hanabi.broker.tables.groups import Groups
from hanabi.broker.tables.topics import Topics
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.store.config import StoreConfig
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import MessageStore, PutResult
from hanabi.testing.clock import ManualClock
from hanabi.wire.bodies.topics import TopicConfig
from hanabi.wire.codes import HeaderForm, RequestCode
from hanabi.wire.command import VERSION, Command
from hanabi.wire.delay_levels import parse_delay_levels
from hanabi.wire.header import NoHeader
from hanabi.wire.headers.send import SendMessageHeader, SendMessageV2Header
from hanabi.wire.message.hosts import encode_host
from hanabi.wire.message.properties import decode_properties
from hanabi.wire.message.record import Record, decode_records
from hanabi.wire.system_names import SCHEDULE_TOPIC
from tests.broker.talk import Peer, connected, serving
from tests.store.opened import opened

STORE_HOST = encode_host("10.1.2.3", 10911)
BORN_MS = 1_699_999_999_000
TOPIC = "Orders"
QUEUES = 4


class Halves:
    """Half messages of these tests: kept in a list, and stored as they are."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self.taken: list[PendingMessage] = []

    def put_half(self, message: PendingMessage) -> PutResult:
        self.taken.append(message)
        return self._intake.put(msgspec.structs.replace(message, topic="Halves", queue_id=0))


class Taking:
    """Everything between a client and the store."""

    def __init__(
        self, root: Path, broker: BrokerConfig | None = None, *, disk_ratio: float = 0.1, **store: object
    ) -> None:
        self.clock = ManualClock()
        config = StoreConfig(
            root=str(root),
            commit_log_segment_bytes=64 * 1024,
            consume_queue_segment_bytes=2_000,
            index_slots=16,
            index_entries=64,
            message_bytes_max=16 * 1024,
        )
        store_config = msgspec.structs.replace(config, **store)
        self.settings = Settings(broker or BrokerConfig(broker_name="broker-a"), store_config)
        self.store = opened(
            MessageStore.open(store_config, now_ms=self.clock, disk_ratio=lambda _: disk_ratio, memory_bytes=1 << 30)
        )
        self.topics = Topics(None, self.settings, self.clock)
        self.topics.update(TopicConfig(topic_name=TOPIC, read_queue_nums=QUEUES, write_queue_nums=QUEUES))
        self.groups = Groups(None, self.settings, self.clock)
        self.stats = BrokerStats("DefaultCluster", self.clock)
        levels = parse_delay_levels(self.settings.broker.message_delay_levels)
        self.intake = Intake(self.store, self.stats, Diverter(levels, self.settings, self.clock).divert)
        self.flow = FlowControl(self.store, self.settings)
        self.halves = Halves(self.intake)
        self.clients: dict[str, Connection] = {}

    def change(self, **settings: object) -> None:
        """Put broker settings into force at run time."""
        self.settings.broker = msgspec.structs.replace(self.settings.broker, **settings)

    @asynccontextmanager
    async def served(self) -> AsyncIterator[tuple[str, int]]:
        """Yield the address where all of it is served."""
        parts = (self.topics, self.groups, self.settings)
        handlers = {
            **send_handlers(
                *(self.intake, *parts, self.flow, STORE_HOST, self.halves),
                random_below=lambda n: n - 1,
                now_ms=self.clock,
            ),
            **send_back_handlers(
                self.store, self.intake, *parts, self.stats, self.flow, STORE_HOST, random_below=lambda n: n - 1
            ),
            **reply_handlers(
                *(self.intake, self.topics, self.settings, STORE_HOST, self.clients.get, self.clock),
                random_below=lambda n: n - 1,
            ),
            RequestCode.HEART_BEAT: Handler(NoHeader, self._heartbeat),
        }
        async with serving(handlers) as address:
            yield address

    def _heartbeat(self, _header: NoHeader, request: Command, connection: Connection) -> Reply:
        self.clients[request.body.decode()] = connection
        return Reply()

    def records(self, topic: str = TOPIC, queue_id: int | None = None) -> list[Record]:
        """Return what is stored, in the order of the queues."""
        found: list[Record] = []
        for queue in range(32) if queue_id is None else (queue_id,):
            for view in self.store.get(topic, queue, 0, 32).slices:
                found += decode_records(view)
        return found

    def schedule(self) -> list[Record]:
        """Return what waits for its delay."""
        return self.records(SCHEDULE_TOPIC)

    def close(self) -> None:
        self.store.close()


@asynccontextmanager
async def talking(taking: Taking) -> AsyncIterator[Peer]:
    """Yield a client of what is served, and the store closed at the end."""
    try:
        async with taking.served() as address, connected(address) as peer:
            yield peer
    finally:
        await asyncio.to_thread(taking.close)


def header(**fields: object) -> SendMessageV2Header:
    """Return a send to the first queue of the topic that exists."""
    plain = SendMessageV2Header(
        producer_group="producers",
        topic=TOPIC,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=BORN_MS,
        flag=0,
        reconsume_times=0,
    )
    return msgspec.structs.replace(plain, **fields)


def as_v1(sent: SendMessageV2Header) -> SendMessageHeader:
    return SendMessageHeader(**msgspec.structs.asdict(sent))


async def send(
    peer: Peer,
    body: bytes = b"hello",
    *,
    code: int = RequestCode.SEND_MESSAGE_V2,
    version: int = VERSION,
    form: HeaderForm = HeaderForm.JSON,
    **fields: object,
) -> Command:
    """Send one message and wait for the answer."""
    return await peer.ask(code, header(**fields), body, version=version, form=form)


def text(properties: Mapping[str, str]) -> str:
    """Properties as a header carries them."""
    return "\x02".join(f"{name}\x01{value}" for name, value in properties.items())


def properties(record: Record) -> dict[str, str]:
    return decode_properties(record.properties)
