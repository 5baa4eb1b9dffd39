"""The home of a large broker, written straight to its files: 20,000 topics, 1,000 groups, 800,000 offsets, a million
messages.

    t00000 ... t19999   a topic with one queue and one message each
    Busy                all other messages, in queue 0, all with the same key and the same tag
    Wide                as many queues as a topic may have, all of them empty
    Orphan0 ...         topics of the store that the table of topics does not know
    g0000 ... g0999     groups; each has an offset in the first 800 topics
    Everywhere          a group that has an offset in every topic
"""

from pathlib import Path
from typing import Final

from hanabi.broker.config import parse_broker_config
from hanabi.broker.handlers.admin.support.limits import QUEUES_MAX
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import MessageStore
from hanabi.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupTable
from hanabi.wire.bodies.topics import TopicConfig, TopicConfigTable
from hanabi.wire.fastjson import encode_body
from hanabi.wire.java_properties import decode_properties
from hanabi.wire.message.hosts import encode_host
from hanabi.wire.message.properties import encode_properties

TOPICS: Final = 20_000
GROUPS: Final = 1_000
MESSAGES: Final = 1_000_000
OFFSETS: Final = 800_000
ORPHANS: Final = 1_000
STORED_MS: Final = 1_700_000_000_000  # all in one millisecond: nothing can be told apart by time

BUSY: Final = "Busy"
WIDE: Final = "Wide"
EVERYWHERE: Final = "Everywhere"
KEY: Final = "the-same-Aa"
COLLIDING_KEY: Final = "the-same-BB"  # which has the same hash
TAG: Final = "common"

CONF: Final = """\
brokerName=broker-a
mappedFileSizeCommitLog=268435456
mappedFileSizeConsumeQueue=20000
maxHashSlotNum=100000
maxIndexNum=4000000
waitTimeMillsInSendQueue=60000
"""
_HOST: Final = encode_host("127.0.0.1", 10911)
_MESSAGES_A_RUN: Final = 5_000
_PROPERTIES: Final = {"KEYS": KEY, "TAGS": TAG}


def topic_name(number: int) -> str:
    return f"t{number:05d}"


def group_name(number: int) -> str:
    return f"g{number:04d}"


def build_home(home: Path) -> None:
    """Write everything that the broker reads at its start."""
    config = home / "config"
    config.mkdir(parents=True)
    (config / "topics.json").write_bytes(encode_body(_topics()))
    (config / "subscriptionGroup.json").write_bytes(encode_body(_groups()))
    (config / "consumerOffset.json").write_bytes(_offsets())
    _, store_config = parse_broker_config({**decode_properties(CONF.encode()), "storePathRootDir": str(home)})
    store = MessageStore.open(store_config, now_ms=lambda: STORED_MS)
    try:
        _fill(store)
    finally:
        store.close()


def _topics() -> TopicConfigTable:
    table = {name: _topic(name, 1) for name in map(topic_name, range(TOPICS))}
    table[BUSY], table[WIDE] = _topic(BUSY, 4), _topic(WIDE, QUEUES_MAX)
    return TopicConfigTable(topic_config_table=table)


def _topic(name: str, queues: int) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues)


def _groups() -> SubscriptionGroupTable:
    names = [*map(group_name, range(GROUPS)), EVERYWHERE]
    return SubscriptionGroupTable(
        subscription_group_table={name: SubscriptionGroupConfig(group_name=name) for name in names}
    )


def _offsets() -> bytes:
    topics = [topic_name(number) for number in range(OFFSETS // GROUPS)]
    pairs = [f'"{topic}@{group}":{{0:1}}' for topic in topics for group in map(group_name, range(GROUPS))]
    pairs += [f'"{topic_name(number)}@{EVERYWHERE}":{{0:1}}' for number in range(TOPICS)]
    queues = ",".join(f"{queue_id}:0" for queue_id in range(QUEUES_MAX))
    pairs += [f'"{WIDE}@{group_name(number)}":{{{queues}}}' for number in range(10)]
    return f'{{"offsetTable":{{{",".join(pairs)}}}}}'.encode()


def _fill(store: MessageStore) -> None:
    names = [*map(topic_name, range(TOPICS)), *(f"Orphan{number}" for number in range(ORPHANS))]
    for name in [BUSY, *names]:
        assert store.put(_message(name)).appended
    _fill_busy(store, MESSAGES - len(names) - 1)


def _message(topic: str) -> PendingMessage:
    return PendingMessage(
        topic, 0, b"hello", encode_properties(_PROPERTIES), born_timestamp_ms=1, born_host=_HOST, store_host=_HOST
    )


def _fill_busy(store: MessageStore, count: int) -> None:
    message = _message(BUSY)
    while count > 0:
        taken = min(count, _MESSAGES_A_RUN)
        assert store.put_batch([message] * taken).appended
        count -= taken
