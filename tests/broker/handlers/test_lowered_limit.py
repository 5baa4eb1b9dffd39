"""`maxMessageSize` is lowered while large messages wait: what was acknowledged is delivered all the same."""

import time
from pathlib import Path

import msgspec

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.testing.cluster import running_broker
from hanabi.testing.waiting import eventually
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.headers.send import ConsumerSendMsgBackHeader, SendMessageReplyHeader, SendMessageV2Header
from hanabi.wire.headers.transaction import EndTransactionHeader
from hanabi.wire.message.message_id import decode_offset_id
from hanabi.wire.message.properties import format_properties
from hanabi.wire.message.record import decode_records
from hanabi.wire.message.sysflag import TRANSACTION_COMMIT, TRANSACTION_PREPARED
from tests.broker.talk import Peer, connected

BROKER = BrokerConfig(broker_name="broker-a", message_delay_levels="1s 1s 1s 1s", transaction_check_interval_ms=100)
TOPIC, GROUP = "Orders", "readers"
SIZE, LOWERED = 5_000, 1_000
HEADER = SendMessageV2Header(
    producer_group="shop",
    topic=TOPIC,
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=0,
    sys_flag=0,
    born_timestamp=1,
    flag=0,
)


async def send(peer: Peer, name: str, sys_flag: int = 0, **properties: object) -> SendMessageReplyHeader:
    text = format_properties({key: str(value) for key, value in properties.items()})
    header = msgspec.structs.replace(HEADER, properties=text, sys_flag=sys_flag)
    reply = await peer.ask(RequestCode.SEND_MESSAGE_V2, header, name.ljust(SIZE).encode())
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return reply.header(SendMessageReplyHeader)


def log_offset(sent: SendMessageReplyHeader) -> int:
    return decode_offset_id(sent.msg_id)[1]


async def commit(peer: Peer, half: SendMessageReplyHeader) -> int:
    header = EndTransactionHeader(
        producer_group="shop",
        tran_state_table_offset=half.queue_offset,
        commit_log_offset=log_offset(half),
        commit_or_rollback=TRANSACTION_COMMIT,
        msg_id=half.msg_id,
    )
    return (await peer.ask(RequestCode.END_TRANSACTION, header)).code


def bodies(broker: Broker, topic: str) -> set[str]:
    pieces = broker.store.get(topic, 0, 0, 32).slices
    return {record.body.decode().strip() for piece in pieces for record in decode_records(piece)}


async def test_a_lowered_limit_is_for_new_messages_only(tmp_path: Path) -> None:
    async with running_broker(tmp_path, BROKER) as broker, connected(broker.address) as peer:
        await send(peer, "delayed", DELAY=1)
        await send(peer, "timed", TIMER_DELIVER_MS=int(time.time() * 1_000) + 1_000)
        half = await send(peer, "half", TRANSACTION_PREPARED, TRAN_MSG="true", PGROUP="shop")
        plain = await send(peer, "plain")
        lowered = await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"maxMessageSize=%d" % LOWERED)
        assert lowered.code == ResponseCode.SUCCESS
        refused = await peer.ask(RequestCode.SEND_MESSAGE_V2, HEADER, bytes(LOWERED + 1))
        assert refused.code == ResponseCode.MESSAGE_ILLEGAL
        assert await commit(peer, half) == ResponseCode.SUCCESS
        back = ConsumerSendMsgBackHeader(offset=log_offset(plain), group=GROUP, delay_level=1)
        assert (await peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)).code == ResponseCode.SUCCESS
        await eventually(lambda: bodies(broker, TOPIC) == {"plain", "delayed", "timed", "half"})
        await eventually(lambda: bodies(broker, f"%RETRY%{GROUP}") == {"plain"})
