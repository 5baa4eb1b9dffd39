"""Tests of what clients say of themselves and ask about each other, by bytes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from hanabi.broker.clients.limits import EXPRESSION_CHARACTERS_MAX, HEARTBEAT_BYTES_MAX, SUBSCRIPTIONS_PER_GROUP_MAX
from hanabi.broker.clients.queue_locks import LOCK_LIFE_MS
from hanabi.message import MessageQueue
from hanabi.wire.bodies.groups import SubscriptionGroupConfig
from hanabi.wire.bodies.heartbeat import CheckClientRequest, ConsumerData, HeartbeatData, MessageModel, SubscriptionData
from hanabi.wire.bodies.locks import LockReply, LockRequest
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import decode_body, encode_body
from tests.broker.clients.people import a_consumer, subscribed
from tests.broker.clients.world import AClient, ClientWorld

LONG = "x" * (EXPRESSION_CHARACTERS_MAX + 1)


@asynccontextmanager
async def playing(**broker: Any) -> AsyncIterator[ClientWorld]:
    """Yield a broker's clients, served for at most a minute."""
    world = ClientWorld(**broker)
    async with asyncio.timeout(60), world.served():
        yield world


# Heartbeats


async def test_a_heartbeat_registers_producers_and_consumers() -> None:
    async with playing() as world:
        one = await world.client("10.0.0.1@1")
        answer = await one.heartbeat(a_consumer("G", subscribed("T", "a")), a_consumer("H"), producers=("P", "Q"))
        assert answer.code == ResponseCode.SUCCESS
        assert answer.remark is None
        assert await one.members("G") == await one.members("H") == ["10.0.0.1@1"]
        group = world.consumers.find_group("G")
        assert group is not None
        assert group.message_model is MessageModel.CLUSTERING
        assert set(world.producers.groups()) == {"P", "Q"}
        assert world.producers.find_client("10.0.0.1@1") is next(iter(group.members))


async def test_a_new_member_is_told_that_its_group_changed_before_its_heartbeat_is_answered() -> None:
    async with playing(gap_seconds=3600) as world:
        beat = encode_body(HeartbeatData(client_id="new", consumer_data_set=[a_consumer("G", subscribed("T"))]))
        codes = await world.first_codes(RequestCode.HEART_BEAT, beat, 2)
        assert codes == [RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ResponseCode.SUCCESS]
        await (await world.client("other")).heartbeat(a_consumer("G", subscribed("T")))
        # also within the moment in which the others are not told again
        assert await world.first_codes(RequestCode.HEART_BEAT, beat, 2) == codes


async def test_a_heartbeat_makes_the_group_and_its_retry_topic() -> None:
    async with playing() as world:
        one = await world.client("one")
        await one.heartbeat(a_consumer("G"))
        unit = ConsumerData(**{**msgspec.structs.asdict(a_consumer("U")), "unit_mode": True})
        await one.heartbeat(unit)
    assert world.groups.known("G") is not None
    retry = world.topics.find("%RETRY%G")
    assert retry is not None
    assert (retry.read_queue_nums, retry.write_queue_nums, retry.perm, retry.topic_sys_flag) == (1, 1, 6, 0)
    unit_retry = world.topics.find("%RETRY%U")
    assert unit_retry is not None
    assert unit_retry.topic_sys_flag == 2


async def test_the_retry_topic_has_the_queues_of_the_group_and_a_group_that_may_not_consume_gets_none() -> None:
    async with playing() as world:
        world.groups.update(SubscriptionGroupConfig(group_name="wide", retry_queue_nums=3))
        world.groups.update(SubscriptionGroupConfig(group_name="closed", consume_enable=False))
        one = await world.client("one")
        await one.heartbeat(a_consumer("wide"), a_consumer("closed"))
        assert await one.members("closed") == ["one"]
    retry = world.topics.find("%RETRY%wide")
    assert retry is not None
    assert retry.write_queue_nums == 3
    assert world.topics.find("%RETRY%closed") is None


async def test_no_group_is_made_when_that_is_switched_off_but_the_member_is_seen() -> None:
    async with playing(auto_create_group=False) as world:
        one = await world.client("one")
        assert (await one.heartbeat(a_consumer("G"))).code == ResponseCode.SUCCESS
        assert await one.members("G") == ["one"]
    assert world.groups.known("G") is None
    assert world.topics.find("%RETRY%G") is None


async def test_a_5x_client_hears_that_a_fingerprint_is_enough_and_when_it_is_not() -> None:
    async with playing() as world:
        one = await world.client("one")

        async def said(*subscriptions: SubscriptionData, **more: Any) -> tuple[str, str]:
            fields = (await one.heartbeat(a_consumer("G", *subscriptions), **more)).fields()
            return fields["IS_SUPPORT_HEART_BEAT_V2"], fields["IS_SUB_CHANGE"]

        assert await said(heartbeat_fingerprint=7, without_sub=True) == ("true", "true")
        assert await said(subscribed("T"), heartbeat_fingerprint=7) == ("true", "false")
        assert await said(heartbeat_fingerprint=7, without_sub=True) == ("true", "false")
        assert world.consumers.subscription("G", "T") == subscribed("T")
        assert await said(heartbeat_fingerprint=8, without_sub=True) == ("true", "true")
        assert await said(without_sub=True) == ("true", "false")  # no fingerprint: it subscribes to nothing
        assert world.consumers.subscription("G", "T") is None


async def test_the_heartbeat_of_a_c_plus_plus_client_with_numbers_for_names_is_read() -> None:
    async with playing() as world:
        one = await world.client("one")
        body = (
            b'{"clientID":"one","consumerDataSet":[{"consumeFromWhere":4,"consumeType":1,"groupName":"G",'
            b'"messageModel":1,"subscriptionDataSet":[{"classFilterMode":false,"codeSet":["97"],"subString":"a",'
            b'"subVersion":1,"tagsSet":["a"],"topic":"T"}],"unitMode":false}],"producerDataSet":[{"groupName":"P"}]}'
        )
        assert (await one.peer.ask(RequestCode.HEART_BEAT, body=body)).code == ResponseCode.SUCCESS
        assert world.consumers.subscription("G", "T") is not None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (HeartbeatData(client_id=""), "an empty client id"),
        (HeartbeatData(client_id="x" * 513), "a client id of 513 characters, limit 512"),
        (HeartbeatData(client_id="c", consumer_data_set=[a_consumer("")]), "an empty consumer group"),
        (
            HeartbeatData(client_id="c", consumer_data_set=[a_consumer("G", subscribed("T" * 600))]),
            "a topic of 600 characters",
        ),
        (
            HeartbeatData(client_id="c", consumer_data_set=[a_consumer("G", subscribed("T", LONG))]),
            "an expression of 65537 characters, limit 65536",
        ),
        (
            HeartbeatData(
                client_id="c",
                consumer_data_set=[
                    a_consumer("G", *(subscribed(f"T{n}") for n in range(SUBSCRIPTIONS_PER_GROUP_MAX + 1)))
                ],
            ),
            "group G subscribes to 4097 topics, limit 4096",
        ),
    ],
)
async def test_a_heartbeat_that_is_too_much_is_refused_with_a_sentence_and_leaves_nothing(
    data: HeartbeatData, reason: str
) -> None:
    async with playing() as world:
        one = await world.client("one")
        answer = await one.peer.ask(RequestCode.HEART_BEAT, body=encode_body(data))
        assert answer.code == ResponseCode.NO_PERMISSION
        assert answer.remark is not None
        assert reason in answer.remark
    assert not world.consumers.groups()
    assert world.groups.known("G") is None


async def test_a_heartbeat_that_is_too_long_or_no_heartbeat_is_refused() -> None:
    async with playing() as world:
        one = await world.client("one")
        long = await one.peer.ask(RequestCode.HEART_BEAT, body=b" " * (HEARTBEAT_BYTES_MAX + 1))
        assert (long.code, "limit" in (long.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
        for body in (b"", b"{}", b"[1]", b'{"clientID":"one","consumerDataSet":[{"groupName":"G"}]}', b"\xff" * 99):
            answer = await one.peer.ask(RequestCode.HEART_BEAT, body=body)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "HeartbeatData" in (answer.remark or "")
        assert (await one.heartbeat(a_consumer("G"))).code == ResponseCode.SUCCESS


# Coming and going


async def test_members_are_told_when_one_comes_unregisters_or_disappears() -> None:
    async with playing() as world:
        one, two = await world.client("one"), await world.client("two")
        await one.heartbeat(a_consumer("G", subscribed("T")))
        assert await one.noticed() == "G"
        await two.heartbeat(a_consumer("G", subscribed("T")))
        assert [await one.noticed(), await two.noticed()] == ["G", "G"]
        await one.heartbeat(a_consumer("G", subscribed("T")))
        assert await one.has_no_notice()
        await two.unregister(consumer="G")
        assert await one.noticed() == "G"
        assert await two.has_no_notice()
        assert await one.members("G") == ["one"]
        await two.heartbeat(a_consumer("G", subscribed("T")))
        assert [await one.noticed(), await two.noticed()] == ["G", "G"]
        await two.peer.close()
        assert await one.noticed() == "G"
        assert await one.members("G") == ["one"]


@pytest.mark.parametrize("where", ["broker", "group"])
async def test_nobody_is_told_when_notices_are_switched_off(where: str) -> None:
    async with playing(notify_consumer_ids_changed=where != "broker") as world:
        if where == "group":
            silent = SubscriptionGroupConfig(group_name="G", notify_consumer_ids_changed_enable=False)
            world.groups.update(silent)
        one, two = await world.client("one"), await world.client("two")
        for client in (one, two):
            await client.heartbeat(a_consumer("G"))
        await two.peer.close()
        await world.until_members("G", "one")
        assert await one.has_no_notice()


async def test_many_that_come_at_once_are_told_once_or_twice_not_each_of_all() -> None:
    async with playing() as world:
        clients = [await world.client(str(number)) for number in range(30)]
        await asyncio.gather(*(client.heartbeat(a_consumer("G")) for client in clients))
        assert len(await clients[0].members("G")) == 30
        for client in clients:
            assert await client.noticed() == "G"
        assert await clients[0].has_no_notice() or clients[0].peer.requests_waiting < 29


async def test_a_group_without_members_is_answered_as_java_does() -> None:
    async with playing() as world:
        one = await world.client("one")
        answer = await one.peer.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "G"})
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "no consumer for this group, G")


async def test_unregistering_leaves_the_groups_that_are_named_and_no_others() -> None:
    async with playing() as world:
        one = await world.client("one")
        await one.heartbeat(a_consumer("G"), a_consumer("H"), producers=("P", "Q"))
        assert (await one.unregister(consumer="G", producer="P")).code == ResponseCode.SUCCESS
        assert (await one.unregister(consumer="G", producer="P")).code == ResponseCode.SUCCESS
        assert set(world.consumers.groups()) == {"H"}
        assert set(world.producers.groups()) == {"Q"}


async def test_a_filter_lives_while_its_group_does() -> None:
    async with playing() as world:
        one = await world.client("one")
        await one.heartbeat(a_consumer("G", subscribed("T", "a > 1", kind="SQL92", version=5)))
        found = world.filters.find("T", "G")
        assert found is not None
        assert not found.is_dead
        await one.unregister(consumer="G")
        found = world.filters.find("T", "G")
        assert found is None or found.is_dead


# Checking a subscription


async def check(client: AClient, expression: str, kind: str) -> tuple[int, str | None]:
    asked = CheckClientRequest(
        client_id=client.client_id, group="G", subscription_data=subscribed("T", expression, kind=kind)
    )
    answer = await client.peer.ask(RequestCode.CHECK_CLIENT_CONFIG, body=encode_body(asked))
    return answer.code, answer.remark


async def test_a_subscription_is_checked_before_a_consumer_starts() -> None:
    async with playing() as world:
        one = await world.client("one")
        assert await check(one, "a || b", "TAG") == (ResponseCode.SUCCESS, None)
        assert await check(one, "price > 10 AND region = 'x'", "SQL92") == (ResponseCode.SUCCESS, None)
        code, remark = await check(one, "price > ", "SQL92")
        assert code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert remark
        code, remark = await check(one, "?", "XPATH")
        assert (code, remark) == (
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            "expression type XPATH is not known; TAG, SQL92 and RULE are",
        )
        assert (await one.peer.ask(RequestCode.CHECK_CLIENT_CONFIG)).code == ResponseCode.SUCCESS


async def test_expressions_are_refused_when_they_are_switched_off() -> None:
    async with playing(property_filter_enabled=False) as world:
        one = await world.client("one")
        assert await check(one, "a > 1", "SQL92") == (
            ResponseCode.SYSTEM_ERROR,
            "The broker does not support consumer to filter message by SQL92",
        )
        assert await check(one, "a", "TAG") == (ResponseCode.SUCCESS, None)


# Locks


QUEUES = [MessageQueue("T", "broker-a", number) for number in range(3)]


async def lock(client: AClient, *queues: MessageQueue, code: int = RequestCode.LOCK_BATCH_MQ) -> list[MessageQueue]:
    asked = LockRequest(client_id=client.client_id, consumer_group="G", mq_set=list(queues))
    answer = await client.peer.ask(code, body=encode_body(asked))
    assert answer.code == ResponseCode.SUCCESS
    return decode_body(answer.body, LockReply).lock_ok_mq_set if answer.body else []


async def test_queues_are_locked_unlocked_and_free_after_60_seconds() -> None:
    async with playing() as world:
        one, two = await world.client("one"), await world.client("two")
        assert await lock(one, *QUEUES[:2]) == QUEUES[:2]
        assert await lock(two, *QUEUES) == QUEUES[2:]
        assert await lock(one, QUEUES[0], code=RequestCode.UNLOCK_BATCH_MQ) == []
        assert await lock(two, *QUEUES) == [QUEUES[0], QUEUES[2]]
        world.clock.ms += LOCK_LIFE_MS + 1
        assert await lock(two, *QUEUES) == QUEUES


async def test_a_consumer_that_unregisters_leaves_its_queues_to_the_next_at_once() -> None:
    async with playing() as world:
        one, two = await world.client("one"), await world.client("two")
        for client in (one, two):
            await client.heartbeat(a_consumer("G"))
        assert await lock(one, *QUEUES) == QUEUES
        await one.unregister(consumer="G")
        assert await lock(two, *QUEUES) == QUEUES


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (LockRequest(client_id="", consumer_group="G"), "an empty client id"),
        (LockRequest(client_id="c", consumer_group=""), "an empty consumer group"),
        (LockRequest(client_id="c", consumer_group="G", mq_set=[MessageQueue("x" * 600, "b", 0)]), "600 characters"),
        (
            LockRequest(client_id="c", consumer_group="G", mq_set=[MessageQueue("T", "b", n) for n in range(20_001)]),
            "20001 queues in one request, limit 20000",
        ),
    ],
)
async def test_locks_that_nobody_wants_in_earnest_are_refused(request_: LockRequest, reason: str) -> None:
    async with playing() as world:
        one = await world.client("one")
        answer = await one.peer.ask(RequestCode.LOCK_BATCH_MQ, body=encode_body(request_))
        assert answer.code != ResponseCode.SUCCESS
        assert reason in (answer.remark or "")
