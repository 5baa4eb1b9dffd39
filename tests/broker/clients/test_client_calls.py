"""Tests of what operators ask a broker to ask its clients."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hanabi.broker.clients.client_calls import CALLS_MAX, ClientCalls
from hanabi.broker.handlers.client_calls import client_call_handlers
from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.broker.offsets.offset_reset import OffsetReset, chosen_offset
from hanabi.message import MessageQueue
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import MessageStore
from hanabi.testing.cluster import small_store
from hanabi.wire.bodies.groups import SubscriptionGroupConfig
from hanabi.wire.bodies.offsets import ConsumerStatus, ResetOffset, ResetOffsetList
from hanabi.wire.bodies.topics import TopicConfig
from hanabi.wire.codes import Language, RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.header import Header
from hanabi.wire.headers.client import ConsumeMessageDirectlyHeader, GetConsumerRunningInfoHeader
from hanabi.wire.headers.offset import GetConsumerStatusHeader, ResetOffsetHeader
from hanabi.wire.message.message_id import encode_offset_id
from tests.broker.clients.people import a_consumer
from tests.broker.clients.world import AClient, ClientWorld

HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
OLD = 27  # V3_0_6
FIRST, SECOND = (MessageQueue("T", "broker-a", number) for number in range(2))


class CallWorld(ClientWorld):
    """A topic T with two queues of five messages, a second apart, of which group G has consumed three."""

    def __init__(self, store: MessageStore, *, seconds: float = 5.0) -> None:
        super().__init__()
        self.store = store
        self.offsets = ConsumerOffsets(None)
        self.topics.update(TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2, topic_sys_flag=1))
        self.groups.update(SubscriptionGroupConfig(group_name="G", group_sys_flag=4))
        calls = ClientCalls(self.consumers, call_seconds=seconds, status_seconds=seconds)
        plans = OffsetReset(self.topics, self.offsets, store.reader, store.queries)
        self.handlers |= client_call_handlers(
            calls, plans, self.offsets, store.queries.record, self.topics, self.groups, self.settings
        )

    def consumed(self, *offsets: int) -> None:
        for queue_id, offset in enumerate(offsets):
            self.offsets.reset("G", "T", queue_id, offset)


@asynccontextmanager
async def a_world(home: Path, *, seconds: float = 5.0) -> AsyncIterator[CallWorld]:
    times = iter(range(1_000, 100_000, 1_000))
    now = [1_000]
    store = MessageStore.open(small_store(home), now_ms=lambda: now[0])
    try:
        for _ in range(5):
            now[0] = next(times)
            for queue_id in range(2):
                store.put(PendingMessage("T", queue_id, b"body", b"", now[0], HOST, HOST))
        world = CallWorld(store, seconds=seconds)
        async with asyncio.timeout(60), world.served():
            yield world
    finally:
        store.close()


async def operate(client: AClient, code: int, header: Header) -> Command:
    return await client.peer.ask(code, header)


def reset(
    time_ms: int, *, force: bool = True, topic: str = "T", queue_id: int | None = None, offset: int | None = None
) -> ResetOffsetHeader:
    return ResetOffsetHeader(
        topic=topic, group="G", timestamp=time_ms, is_force=force, queue_id=queue_id, offset=offset
    )


RESET = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET


async def told(client: AClient) -> Command:
    """Return what the client is told next, notices aside."""
    while (command := await client.peer.request()).code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
        pass
    return command


# Resets


def test_a_group_goes_forward_only_by_force() -> None:
    assert chosen_offset(5, 3, is_force=False) == 3
    assert chosen_offset(5, 8, is_force=False) == 5
    assert chosen_offset(5, 8, is_force=True) == 8
    assert chosen_offset(-1, 8, is_force=False) == 8


async def test_all_members_are_told_where_to_start_and_the_broker_starts_there_too(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        one, two, operator = [await world.client(name) for name in ("one", "two", "operator")]
        for client in (one, two):
            await client.heartbeat(a_consumer("G"))
        world.consumed(3, 5)
        answer = await operate(operator, RESET, reset(2_000))
        assert answer.code == ResponseCode.SUCCESS
        expected = {FIRST: 1, SECOND: 1}
        assert decode_body(answer.body, ResetOffset).offset_table == expected
        for client in (one, two):
            command = await told(client)
            assert command.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET
            assert command.is_oneway
            fields = command.fields()
            assert fields == {"topic": "T", "group": "G", "timestamp": "2000", "isForce": "true"}
            assert decode_body(command.body, ResetOffset).offset_table == expected
        assert world.offsets.of("G", "T") == {0: 1, 1: 1}


@pytest.mark.parametrize(
    ("time_ms", "force", "expected"),
    [
        (-1, True, {0: 5, 1: 5}),  # the end
        (-1, False, {0: 3, 1: 1}),
        (2_000, False, {0: 1, 1: 1}),
        (4_000, False, {0: 3, 1: 1}),  # not forward
        (4_000, True, {0: 3, 1: 3}),
        (0, True, {0: 0, 1: 0}),
    ],
)
async def test_a_reset_follows_time_and_force(
    tmp_path: Path, time_ms: int, force: bool, expected: dict[int, int]
) -> None:
    async with a_world(tmp_path) as world:
        one = await world.client("one")
        await one.heartbeat(a_consumer("G"))
        world.consumed(3, 1)
        assert (await operate(one, RESET, reset(time_ms, force=force))).code == ResponseCode.SUCCESS
        assert world.offsets.of("G", "T") == expected


async def test_a_queue_of_which_the_group_had_nothing_yet_is_reset_with_the_others(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        one = await world.client("one")
        await one.heartbeat(a_consumer("G"))
        world.consumed(3)
        await operate(one, RESET, reset(2_000, force=False))
        assert world.offsets.of("G", "T") == {0: 1, 1: 1}


async def test_a_c_plus_plus_client_gets_a_list(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        cpp, java = await world.client("cpp"), await world.client("java")
        await cpp.heartbeat_in(Language.CPP, a_consumer("G"))
        await java.heartbeat_in(Language.JAVA, a_consumer("G"))
        world.consumed(3, 3)
        await operate(java, RESET, reset(2_000))
        entries = decode_body((await told(cpp)).body, ResetOffsetList).offset_table
        assert [(entry.topic, entry.broker_name, entry.queue_id, entry.offset) for entry in entries] == [
            ("T", "broker-a", 0, 1),
            ("T", "broker-a", 1, 1),
        ]
        assert decode_body((await told(java)).body, ResetOffset).offset_table == {FIRST: 1, SECOND: 1}


async def test_what_cannot_be_reset_is_refused_with_java_s_code_and_nothing_changes(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        operator, old, new = [await world.client(name) for name in ("operator", "old", "new")]

        async def refused(header: ResetOffsetHeader) -> tuple[int, str | None]:
            answer = await operate(operator, RESET, header)
            return answer.code, answer.remark

        assert await refused(reset(2_000, topic="no")) == (
            ResponseCode.SYSTEM_ERROR,
            "[reset-offset] reset offset failed, no topic in this broker. topic=no",
        )
        assert await refused(reset(2_000)) == (ResponseCode.SYSTEM_ERROR, "THe consumer group <G> not exist")
        world.consumed(3, 3)
        assert await refused(reset(2_000)) == (
            ResponseCode.CONSUMER_NOT_ONLINE,
            "Consumer not online, so can not reset offset, Group: G Topic: T Timestamp: 2000",
        )
        await new.heartbeat(a_consumer("G"))
        await old.heartbeat(a_consumer("G"), version=OLD)
        assert await refused(reset(2_000)) == (
            ResponseCode.SYSTEM_ERROR,
            "the client does not support this feature. version=V3_0_6",
        )
        assert world.offsets.of("G", "T") == {0: 3, 1: 3}
        for client in (new, old):  # notices and no more
            while not await client.has_no_notice():
                assert (await client.peer.request()).code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


async def test_one_queue_is_set_to_an_offset_also_while_the_group_is_away(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        operator = await world.client("operator")
        answer = await operate(operator, RESET, reset(-1, queue_id=1, offset=2))
        assert answer.code == ResponseCode.SUCCESS
        assert decode_body(answer.body, ResetOffset).offset_table == {SECOND: 2}
        await operate(operator, RESET, reset(4_000, queue_id=0))
        assert world.offsets.of("G", "T") == {0: 3, 1: 2}
        for wrong, reason in (
            (reset(-1, queue_id=1, offset=6), "Target offset 6 not in consume queue range [0-5]"),
            (reset(-1, queue_id=2, offset=0), "topic T has no queue 2"),
        ):
            answer = await operate(operator, RESET, wrong)
            assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, reason)


async def test_a_member_that_is_gone_by_then_does_not_stop_the_reset(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        one, two = await world.client("one"), await world.client("two")
        for client in (one, two):
            await client.heartbeat(a_consumer("G"))
        world.consumed(3, 3)
        group = world.consumers.find_group("G")
        assert group is not None
        next(iter(group.members)).closed = True  # its end is known, but the table has not heard of it yet
        assert (await operate(two, RESET, reset(2_000))).code == ResponseCode.SUCCESS
        assert (await told(two)).code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET
        next(iter(group.members)).closed = False


# Offsets that clients hold


STATUS = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS


async def answers_status(client: AClient, offset: int) -> None:
    command = await told(client)
    assert command.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
    assert command.fields() == {"topic": "T", "group": "G"}
    client.peer.reply(command, body=encode_body(ConsumerStatus(message_queue_table={FIRST: offset})))


async def test_the_offsets_of_all_members_or_of_one_are_asked_for(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        one, two, operator = [await world.client(name) for name in ("one", "two", "operator")]
        for client in (one, two):
            await client.heartbeat(a_consumer("G"))
        everybody, _, _ = await asyncio.gather(
            operate(operator, STATUS, GetConsumerStatusHeader(topic="T", group="G")),
            answers_status(one, 7),
            answers_status(two, 8),
        )
        expected = {"one": {FIRST: 7}, "two": {FIRST: 8}}
        assert decode_body(everybody.body, ConsumerStatus).consumer_table == expected
        only, _ = await asyncio.gather(
            operate(operator, STATUS, GetConsumerStatusHeader(topic="T", group="G", client_addr="two")),
            answers_status(two, 9),
        )
        assert decode_body(only.body, ConsumerStatus).consumer_table == {"two": {FIRST: 9}}


async def test_members_that_say_nothing_or_nonsense_are_left_out(tmp_path: Path) -> None:
    async with a_world(tmp_path, seconds=1.0) as world:
        fine, mute, mad, failing = [await world.client(name) for name in ("fine", "mute", "mad", "failing")]
        for client in (fine, mute, mad, failing):
            await client.heartbeat(a_consumer("G"))

        async def answer(client: AClient, code: int, body: bytes) -> None:
            client.peer.reply(await told(client), code, body=body)

        operated, *_ = await asyncio.gather(
            operate(fine, STATUS, GetConsumerStatusHeader(topic="T", group="G")),
            answers_status(fine, 7),
            answer(mad, 0, b"?"),
            answer(failing, 1, b""),
        )
        assert operated.code == ResponseCode.SUCCESS
        assert decode_body(operated.body, ConsumerStatus).consumer_table == {"fine": {FIRST: 7}}


async def test_nobody_is_asked_for_offsets_if_nobody_is_there_or_one_is_too_old(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        old = await world.client("old")
        header = GetConsumerStatusHeader(topic="T", group="G")
        answer = await operate(old, STATUS, header)
        assert (answer.code, answer.remark) == (
            ResponseCode.SYSTEM_ERROR,
            "No Any Consumer online in the consumer group: [G]",
        )
        await old.heartbeat(a_consumer("G"), version=OLD)
        answer = await operate(old, STATUS, header)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "does not support" in (answer.remark or "")


# Passing on


INFO = RequestCode.GET_CONSUMER_RUNNING_INFO
DIRECTLY = RequestCode.CONSUME_MESSAGE_DIRECTLY


async def test_a_question_and_its_answer_are_passed_on_as_they_are(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        one, operator = await world.client("one"), await world.client("operator")
        await one.heartbeat(a_consumer("G"))
        header = GetConsumerRunningInfoHeader(consumer_group="G", client_id="one", jstack_enable=True)
        answer = operator.peer.start(INFO, header)
        command = await told(one)
        assert command.code == INFO
        assert command.fields() == {"consumerGroup": "G", "clientId": "one", "jstackEnable": "true"}
        one.peer.reply(command, 0, body=b'{"properties":{}}')
        assert ((await answer).code, (await answer).body) == (0, b'{"properties":{}}')
        answer = operator.peer.start(INFO, header)
        one.peer.reply(await told(one), 1, remark="not today")
        assert ((await answer).code, (await answer).remark) == (1, "not today")


async def test_few_clients_are_asked_at_the_same_time_and_more_is_refused(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        client, operator = await world.client("c1"), await world.client("operator")
        await client.heartbeat(a_consumer("G"))
        header = GetConsumerRunningInfoHeader(consumer_group="G", client_id="c1")
        asked = [operator.peer.start(RequestCode.GET_CONSUMER_RUNNING_INFO, header) for _ in range(CALLS_MAX + 5)]
        for refused in asked[CALLS_MAX:]:
            answer = await refused
            assert answer.code == ResponseCode.SYSTEM_BUSY
            assert f"{CALLS_MAX} clients are being asked already" in (answer.remark or "")
        for _ in range(CALLS_MAX):
            client.peer.reply(await told(client), body=b"{}")
        assert {(await answer).code for answer in asked[:CALLS_MAX]} == {ResponseCode.SUCCESS}
        again = operator.peer.start(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
        client.peer.reply(await told(client), body=b"{}")
        assert (await again).code == ResponseCode.SUCCESS


async def test_a_message_is_given_to_one_client_to_consume_it_now(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        one, operator = await world.client("one"), await world.client("operator")
        await one.heartbeat(a_consumer("G"))
        header = ConsumeMessageDirectlyHeader(
            consumer_group="G", client_id="one", msg_id=encode_offset_id(HOST, 0), topic="T"
        )
        answer = operator.peer.start(DIRECTLY, header)
        command = await told(one)
        record = world.store.queries.record(0)
        assert record is not None
        assert command.body == record
        fields = command.fields()
        assert (fields["brokerName"], fields["topicSysFlag"], fields["groupSysFlag"]) == ("broker-a", "1", "4")
        one.peer.reply(command, body=b'{"consumeResult":"CR_SUCCESS"}')
        assert (await answer).body == b'{"consumeResult":"CR_SUCCESS"}'
        del record


async def test_a_message_that_is_not_there_is_not_passed_on(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        one = await world.client("one")
        await one.heartbeat(a_consumer("G"))
        for msg_id, reason in (
            (encode_offset_id(HOST, 77), "there is no message"),
            (encode_offset_id(HOST, -1), "there is no message"),
            ("nonsense", "32 or 56 hexadecimal digits"),
            (None, "no msgId"),
        ):
            header = ConsumeMessageDirectlyHeader(consumer_group="G", client_id="one", msg_id=msg_id)
            answer = await operate(one, DIRECTLY, header)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert reason in (answer.remark or "")


async def test_who_is_not_there_too_old_or_too_slow_is_told_apart(tmp_path: Path) -> None:
    async with a_world(tmp_path, seconds=0.1) as world:
        old, slow, operator = [await world.client(name) for name in ("old", "slow", "operator")]

        async def asked(client_id: str) -> tuple[int, str]:
            header = GetConsumerRunningInfoHeader(consumer_group="G", client_id=client_id)
            answer = await operate(operator, INFO, header)
            return answer.code, answer.remark or ""

        assert await asked("nobody") == (ResponseCode.SYSTEM_ERROR, "The Consumer <G> <nobody> not online")
        await old.heartbeat(a_consumer("G"), version=61)
        assert await asked("old") == (
            ResponseCode.SYSTEM_ERROR,
            "The Consumer <old> Version <V3_1_7> too low to finish, please upgrade it to V3_1_8_SNAPSHOT",
        )
        await slow.heartbeat(a_consumer("G"))
        code, remark = await asked("slow")
        assert code == ResponseCode.CONSUME_MSG_TIMEOUT
        assert remark.startswith("consumer <G> <slow> Timeout: ")


async def test_a_client_that_goes_away_instead_of_answering_is_said_so(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        leaving, operator = await world.client("leaving"), await world.client("operator")
        await leaving.heartbeat(a_consumer("G"))
        header = GetConsumerRunningInfoHeader(consumer_group="G", client_id="leaving")
        answer = operator.peer.start(INFO, header)
        await told(leaving)
        await leaving.peer.close()
        assert (await answer).code == ResponseCode.SYSTEM_ERROR
        assert ((await answer).remark or "").startswith("invoke consumer <G> <leaving> Exception: ")
