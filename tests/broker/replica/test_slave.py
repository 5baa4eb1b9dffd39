"""A whole slave: it follows, serves reads, wakes held pulls, and refuses what only a master may do."""

from pathlib import Path

import pytest

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.testing.cluster import running_broker
from hanabi.testing.topics import create_topic, plain_topic
from hanabi.testing.waiting import eventually
from hanabi.wire.bodies.ha_status import HAStatus
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import decode_body
from hanabi.wire.headers.pull import PullMessageHeader, PullMessageReplyHeader
from hanabi.wire.headers.send import SendMessageV2Header
from hanabi.wire.message.record import Record, decode_records
from tests.broker.replica.pairs import running_pair
from tests.broker.talk import Peer

TOPIC, GROUP = "Orders", "billing"


def send_header(topic: str = TOPIC, queue_id: int = 0, properties: str = "") -> SendMessageV2Header:
    return SendMessageV2Header(
        producer_group="p",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
        properties=properties,
        reconsume_times=0,
        unit_mode=False,
        batch=False,
    )


def pull_header(offset: int, *, hold_ms: int = 0, group: str = GROUP) -> PullMessageHeader:
    return PullMessageHeader(
        consumer_group=group,
        topic=TOPIC,
        queue_id=0,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=4 | (2 if hold_ms else 0),
        commit_offset=0,
        suspend_timeout_millis=hold_ms,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )


async def test_a_slave_serves_what_its_master_took_and_wakes_held_pulls(tmp_path: Path) -> None:
    async with running_pair(tmp_path) as pair:
        await create_topic(pair.master, TOPIC, queues=1)
        producer, consumer = await Peer.connect(pair.master.address), await Peer.connect(pair.slave.address)
        await pair.synced()
        assert (await producer.ask(RequestCode.SEND_MESSAGE_V2, send_header(), b"first")).code == 0
        await pair.caught_up()
        found = await consumer.ask(RequestCode.PULL_MESSAGE, pull_header(0))
        assert (found.code, b"first" in found.body) == (ResponseCode.SUCCESS, True)
        held = consumer.start(RequestCode.PULL_MESSAGE, pull_header(1, hold_ms=60_000))
        await eventually(lambda: len(pair.slave.tables.held_pulls) == 1, "the pull is held")
        assert (await producer.ask(RequestCode.SEND_MESSAGE_V2, send_header(), b"second")).code == 0
        woken = await held
        assert (woken.code, b"second" in woken.body) == (ResponseCode.SUCCESS, True)
        await pair.caught_up()
        status = decode_body(bytes((await consumer.ask(RequestCode.GET_BROKER_HA_STATUS)).body), HAStatus)
        assert not status.master
        assert status.ha_client_runtime_info.master_addr == pair.side.slave.state().master_address
        assert status.ha_client_runtime_info.max_offset == pair.master.store.max_log_offset
        await producer.close()
        await consumer.close()


async def test_a_slave_refuses_messages_transactions_and_changes_and_takes_commits_and_locks(tmp_path: Path) -> None:
    async with running_pair(tmp_path) as pair:
        await create_topic(pair.master, TOPIC, queues=1)
        await pair.synced()
        peer = await Peer.connect(pair.slave.address)

        async def code_of(code: int, header: object = None, body: bytes = b"") -> int:
            return (await peer.ask(code, header, body)).code  # type: ignore[arg-type]

        for topic in (TOPIC, "new"):
            refused = await peer.ask(RequestCode.SEND_MESSAGE_V2, send_header(topic), b"x")
            assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert "messages are put to the slave" in (refused.remark or "")
        assert (
            await code_of(RequestCode.CONSUMER_SEND_MSG_BACK, {"offset": "0", "group": GROUP, "delayLevel": "3"})
            == ResponseCode.SYSTEM_ERROR
        )
        end = {"producerGroup": "p", "tranStateTableOffset": "0", "commitLogOffset": "0", "commitOrRollback": "8"}
        end |= {"fromTransactionCheck": "false", "msgId": "m"}
        assert await code_of(RequestCode.END_TRANSACTION, end) == ResponseCode.SLAVE_NOT_AVAILABLE
        assert await code_of(RequestCode.UPDATE_AND_CREATE_TOPIC, plain_topic("other", 1)) == ResponseCode.SYSTEM_ERROR
        deleted = await code_of(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": GROUP})
        assert deleted == ResponseCode.SYSTEM_ERROR
        commit = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "commitOffset": "0"}
        assert await code_of(RequestCode.UPDATE_CONSUMER_OFFSET, commit) == ResponseCode.SUCCESS
        queue = b'{"topic":"Orders","brokerName":"broker-a","queueId":0}'
        lock = b'{"consumerGroup":"billing","clientId":"c","mqSet":[%b]}' % queue
        assert await code_of(RequestCode.LOCK_BATCH_MQ, body=lock) == ResponseCode.SUCCESS
        beyond = await peer.ask(RequestCode.PULL_MESSAGE, pull_header(77))
        assert beyond.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert beyond.header(PullMessageReplyHeader).next_begin_offset == 77
        pair.slave.settings.update("offsetCheckInSlave=true")
        corrected = await peer.ask(RequestCode.PULL_MESSAGE, pull_header(77))
        assert corrected.code == ResponseCode.PULL_OFFSET_MOVED
        assert corrected.header(PullMessageReplyHeader).next_begin_offset == 0
        assert pair.slave.store.max_log_offset == pair.master.store.max_log_offset
        assert pair.slave.tables.topics.data_version == pair.master.tables.topics.data_version
        await peer.close()


@pytest.mark.parametrize("reads_slaves", [False, True])
async def test_a_master_sends_consumers_that_lag_to_its_slave_which_sends_them_back(
    tmp_path: Path, reads_slaves: bool
) -> None:
    async with running_pair(
        tmp_path, master={"slave_read_enabled": reads_slaves}, slave_read_enabled=reads_slaves
    ) as pair:
        await create_topic(pair.master, TOPIC, queues=1)
        await pair.synced()
        producer = await Peer.connect(pair.master.address)
        for _ in range(40):
            assert (await producer.ask(RequestCode.SEND_MESSAGE_V2, send_header(), b"x" * 1_000)).code == 0
        await pair.caught_up()
        pair.master.store.reader.memory_bytes = 4_000
        for broker, first, last in ((pair.master, 1 if reads_slaves else 0, 0), (pair.slave, 0, 0)):
            consumer = await Peer.connect(broker.address)
            for offset, suggested in ((0, first), (38, last)):
                found = await consumer.ask(RequestCode.PULL_MESSAGE, pull_header(offset))
                assert found.code == ResponseCode.SUCCESS
                assert found.header(PullMessageReplyHeader).suggest_which_broker_id == suggested
            await consumer.close()
        await producer.close()


async def test_a_promoted_slave_delivers_no_delayed_message_again(tmp_path: Path) -> None:
    levels = "1s" + " 1s" * 17
    async with running_pair(tmp_path, master={"message_delay_levels": levels}, message_delay_levels=levels) as pair:
        await create_topic(pair.master, TOPIC, queues=1)
        producer = await Peer.connect(pair.master.address)
        for count in (1, 2):  # the second one is delivered after the last copy of the tables
            sent = await producer.ask(RequestCode.SEND_MESSAGE_V2, send_header(properties="DELAY\x011\x02"), b"late")
            assert sent.code == 0, sent.remark
            await eventually(lambda: end_of(pair.master) == count, "it is delivered")  # noqa: B023
            if count == 1:
                await pair.synced()
        await pair.caught_up()
        assert pair.slave.services.delivery.table().offset_table == {1: 1}
        await producer.close()
    config = BrokerConfig(broker_name="broker-a", message_delay_levels=levels)
    async with running_broker(tmp_path / "slave", config) as promoted:
        assert end_of(promoted) == 2
        producer = await Peer.connect(promoted.address)
        sent = await producer.ask(RequestCode.SEND_MESSAGE_V2, send_header(properties="DELAY\x011\x02"), b"new")
        assert sent.code == 0, sent.remark
        await eventually(lambda: end_of(promoted) > 2, "it is delivered")
        assert end_of(promoted) == 3  # a repeated one would have come first
        assert [record.body for record in records_of(promoted)][-1] == b"new"
        await producer.close()


def end_of(broker: Broker) -> int:
    return broker.store.reader.max_offset(TOPIC, 0)


def records_of(broker: Broker) -> list[Record]:
    return [record for piece in broker.store.get(TOPIC, 0, 0, 32).slices for record in decode_records(piece)]


async def test_a_slave_keeps_the_queues_of_a_topic_whose_settings_it_does_not_have_yet(tmp_path: Path) -> None:
    async with running_pair(tmp_path) as pair:
        await eventually(lambda: pair.side.sync.rounds, "the tables were copied")
        await create_topic(pair.master, TOPIC, queues=1)
        producer, admin = await Peer.connect(pair.master.address), await Peer.connect(pair.slave.address)
        assert (await producer.ask(RequestCode.SEND_MESSAGE_V2, send_header(), b"first")).code == 0
        await pair.caught_up()
        for code in (RequestCode.CLEAN_UNUSED_TOPIC, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE):
            assert (await admin.ask(code)).code == ResponseCode.SUCCESS
        assert end_of(pair.slave) == 1
        await producer.close()
        await admin.close()


async def test_a_promoted_slave_delivers_the_timed_messages_that_wait_and_no_other(tmp_path: Path) -> None:
    async with running_pair(tmp_path) as pair:
        await create_topic(pair.master, TOPIC, queues=1)
        await pair.synced()
        producer = await Peer.connect(pair.master.address)
        for body, wait_ms in ((b"done", 500), (b"waits", 6_000)):
            timed = send_header(properties=f"TIMER_DELAY_MS\x01{wait_ms}\x02")
            assert (await producer.ask(RequestCode.SEND_MESSAGE_V2, timed, body)).code == 0
        await eventually(lambda: end_of(pair.master) == 1, "the first one is delivered")
        await pair.caught_up()
        await producer.close()
    async with running_broker(tmp_path / "slave", BrokerConfig(broker_name="broker-a")) as promoted:
        await eventually(lambda: end_of(promoted) == 2, "the second one is delivered")
        assert [record.body for record in records_of(promoted)] == [b"done", b"waits"]
