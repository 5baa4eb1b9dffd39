"""Messages of every kind, the same again for the same seed, and how they get into our store or to Apache's broker."""

import random
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from hanabi.store.log.commit_log import PendingMessage
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.header import header_fields
from hanabi.wire.headers.send import SendMessageReplyHeader, SendMessageV2Header
from hanabi.wire.message import sysflag
from hanabi.wire.message.batch import BatchMessage, encode_batch
from hanabi.wire.message.compression import CompressionType, compress
from hanabi.wire.message.hosts import encode_host
from hanabi.wire.message.message_id import decode_offset_id
from hanabi.wire.message.properties import encode_properties, format_properties
from tests.interop.probe import Conversation

# Files so short that a few hundred messages fill many of them.
FILE_SIZES: Final = {
    "mappedFileSizeCommitLog": 1 << 16,
    "mappedFileSizeConsumeQueue": 20 * 20,
    "maxHashSlotNum": 40,
    "maxIndexNum": 250,
}
QUEUES: Final = 4  # of every topic
TOPICS: Final = ("Busy", *(f"Interop{number}" for number in range(6)))
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
LAST_LEVEL: Final = 18  # two hours: nothing is delivered while a test looks
_LAST_LEVEL_MS: Final = 2 * 3_600_000

HOST_4: Final = encode_host("127.0.0.1", 10911)
HOST_6: Final = encode_host("fd00::2", 10911)
_TAGS: Final = ("A", "created", "ü€", "a tag with more than one word", None)
_COMPRESSIONS: Final = tuple(CompressionType)


class Sample(NamedTuple):
    """Message as a producer describes it."""

    topic: str
    queue_id: int
    body: bytes
    properties: dict[str, str]
    sys_flag: int = 0
    flag: int = 0
    reconsume_times: int = 0


def samples(seed: int, count: int, topics: Sequence[str] = TOPICS) -> Iterator[list[Sample]]:
    """*count* times a message, or a batch for one queue. The first topic gets half of it, in one queue."""
    rng = random.Random(seed)
    for number in range(count):
        topic, queue_id = (topics[0], 0) if number % 2 else (rng.choice(topics), rng.randrange(QUEUES))
        size = rng.choice((2, 3, 5)) if number % 9 == 8 else 1
        batch = [_sample(rng, topic, queue_id, f"{seed}-{number}-{part}") for part in range(size)]
        if size == 1 and number % 10 == 3:
            compression = _COMPRESSIONS[number // 10 % len(_COMPRESSIONS)]
            body, sys_flag = compress(batch[0].body, compression), sysflag.with_compression(0, compression)
            batch = [batch[0]._replace(body=body, sys_flag=sys_flag)]
        yield batch


def _sample(rng: random.Random, topic: str, queue_id: int, name: str) -> Sample:
    properties = {"UNIQ_KEY": f"7F000001{name}", "name": name}
    if tag := rng.choice(_TAGS):
        properties["TAGS"] = tag
    if rng.random() < 0.7:
        properties["KEYS"] = f"key-{name} shared-{rng.randrange(20)}"
    if rng.random() < 0.05:
        properties |= {f"property {number} ö": "value " * rng.randrange(40) for number in range(60)}
    body = name.encode() + rng.randbytes(rng.choice((1, 10, 100, 1000, 3000)))
    return Sample(topic, queue_id, body, properties, flag=rng.randrange(2**31), reconsume_times=rng.randrange(3))


def deliver_time_ms(level: int, store_ms: int) -> int:
    """Return when Apache's broker delivers a message of this delay level, of which only the last is used here."""
    assert level == LAST_LEVEL
    return store_ms + _LAST_LEVEL_MS


def pending(sample: Sample, *, born_host: bytes = HOST_4, store_host: bytes = HOST_4) -> PendingMessage:
    """Return a sample as our store takes it."""
    sys_flag = sample.sys_flag
    sys_flag |= sysflag.BORN_HOST_V6 if len(born_host) == len(HOST_6) else 0
    sys_flag |= sysflag.STORE_HOST_V6 if len(store_host) == len(HOST_6) else 0
    return PendingMessage(
        sample.topic,
        sample.queue_id,
        sample.body,
        encode_properties(sample.properties),
        born_timestamp_ms=1_700_000_000_000,
        born_host=born_host,
        store_host=store_host,
        flag=sample.flag,
        sys_flag=sys_flag,
        reconsume_times=sample.reconsume_times,
    )


def send(conversation: Conversation, batch: Sequence[Sample]) -> list[int]:
    """Send a message, or a batch, to Apache's broker; return where in its log it is now."""
    first = batch[0]
    is_batch = len(batch) > 1
    header = SendMessageV2Header(
        producer_group="interop_store",
        topic=first.topic,
        default_topic="TBW102",
        default_topic_queue_nums=QUEUES,
        queue_id=first.queue_id,
        sys_flag=first.sys_flag,
        born_timestamp=1_700_000_000_000,
        flag=first.flag,
        properties=format_properties({} if is_batch else first.properties),
        reconsume_times=first.reconsume_times,
        batch=is_batch,
    )
    body = first.body
    if is_batch:
        body = encode_batch(BatchMessage(part.flag, part.body, encode_properties(part.properties)) for part in batch)
    code = RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2
    answer = conversation.ask(code, header_fields(header), body)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    ids = answer.header(SendMessageReplyHeader).msg_id.split(",")
    assert len(ids) == len(batch)
    return [decode_offset_id(message_id).log_offset for message_id in ids]
