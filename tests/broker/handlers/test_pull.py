"""Pulls over a socket: what comes, which code and which words when nothing comes, and when a held one is answered."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from hanabi.broker.config import BrokerConfig
from hanabi.broker.filters.subscription_parsing import parse_subscription
from hanabi.broker.replica.roles import BrokerRole
from hanabi.store.read.queue_reader import GetStatus
from hanabi.wire.bodies.heartbeat import MessageModel
from hanabi.wire.codes import HeaderForm, RequestCode, ResponseCode
from hanabi.wire.command import Command, decode_command, encode_request
from hanabi.wire.header import header_fields
from hanabi.wire.headers.pull import PullMessageReplyHeader
from hanabi.wire.message.tags import java_hash
from tests.broker.reading import (
    COMMIT,
    GROUP,
    QUEUES,
    SUBSCRIPTION,
    SUSPEND,
    TOPIC,
    Reading,
    ask,
    bodies,
    consuming,
    place,
    pull,
    read,
    subscribe,
)
from tests.broker.talk import Peer, connected
from tests.golden_frames import ALL_FRAMES
from tests.store.open_files import no_free_descriptors

SEE = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."


@pytest.fixture
def reading(tmp_path: Path) -> Reading:
    return Reading(tmp_path)


def refusal(reply: Command) -> tuple[int, str | None, dict[str, str]]:
    return reply.code, reply.remark, reply.fields()


# What is there


@pytest.mark.parametrize("form", list(HeaderForm))
@pytest.mark.parametrize("code", [RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE])
async def test_messages_come_from_the_offset_on(reading: Reading, code: int, form: HeaderForm) -> None:
    async with consuming(reading) as peer:
        reading.put(b"0", b"1", b"2", b"3")
        reply = await peer.ask(code, pull(1), form=form)
        assert bodies(reply) == [b"1", b"2", b"3"]
        assert reply.remark == "FOUND"
        assert place(reply) == (4, 0, 4)
        assert reply.header(PullMessageReplyHeader).suggest_which_broker_id == 0


async def test_as_many_messages_come_as_asked_for(reading: Reading) -> None:
    async with consuming(reading) as peer:
        reading.put(*[b"%d" % number for number in range(40)])
        assert len(bodies(await read(peer, max_msg_nums=5))) == 5
        assert len(bodies(await read(peer, max_msg_nums=100))) == 32
        assert bodies(await read(peer, max_msg_nums=0)) == [b"0"]
        assert bodies(await read(peer, 7, max_msg_nums=-1)) == [b"7"]


async def test_a_reply_has_the_fields_of_apaches(reading: Reading) -> None:
    golden = next(frame for frame in ALL_FRAMES if frame.request_code == 11 and frame.response and frame.code == 0)
    async with consuming(reading) as peer:
        reading.put(b"0")
        reply = await read(peer)
        assert b'"remark":"FOUND"' in golden.frame
        assert all(b'"%b"' % name.encode() in golden.frame for name in reply.fields())
        assert len(reply.fields()) == 4


async def test_what_was_found_is_counted(reading: Reading) -> None:
    async with consuming(reading) as peer:
        reading.put(b"0", b"1")
        reading.clock.ms += 500
        reply = await read(peer)
        await read(peer, 2)
        stats = reading.stats
        tally = stats._group_get[TOPIC, GROUP]
        assert (tally.messages, tally.bytes, tally.times) == (2, len(reply.body), 1)
        assert stats._fall_ms == {(0, TOPIC, GROUP): 500}
        assert (0, TOPIC, GROUP) in stats._fall_bytes
        assert stats._latency[0, TOPIC, GROUP].times == 1
        assert (stats.store.gets_found, stats.store.gets_missed) == (1, 1)


# What is not there


@pytest.mark.parametrize(
    ("offset", "code", "remark", "expected"),
    [
        (3, ResponseCode.PULL_NOT_FOUND, GetStatus.OFFSET_OVERFLOW_ONE, (3, 0, 3)),
        (4, ResponseCode.PULL_OFFSET_MOVED, GetStatus.OFFSET_OVERFLOW_BADLY, (3, 0, 3)),
        (2**63 - 1, ResponseCode.PULL_OFFSET_MOVED, GetStatus.OFFSET_OVERFLOW_BADLY, (3, 0, 3)),
        (-1, ResponseCode.PULL_OFFSET_MOVED, GetStatus.OFFSET_TOO_SMALL, (0, 0, 3)),
    ],
)
async def test_an_offset_outside_the_queue_is_corrected(
    reading: Reading, offset: int, code: int, remark: GetStatus, expected: tuple[int, int, int]
) -> None:
    async with consuming(reading) as peer:
        reading.put(b"0", b"1", b"2")
        reply = await read(peer, offset)
        assert (reply.code, reply.remark, reply.body) == (code, remark.value, b"")
        assert place(reply) == expected


async def test_an_offset_whose_messages_were_deleted_is_moved_to_the_first_that_is_left(reading: Reading) -> None:
    async with consuming(reading) as peer:
        reading.put(*[bytes(10_000)] * 30)
        reading.delete_old()
        low = reading.store.reader.min_offset(TOPIC, 0)
        assert low > 0
        reply = await read(peer, low - 1)
        assert (reply.code, reply.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL")
        assert place(reply) == (low, low, 30)


@pytest.mark.parametrize(("offset", "code"), [(0, ResponseCode.PULL_NOT_FOUND), (5, ResponseCode.PULL_OFFSET_MOVED)])
async def test_an_empty_queue_is_fresh_to_who_starts_at_0_and_lost_to_who_had_come_further(
    reading: Reading, offset: int, code: int
) -> None:
    async with consuming(reading) as peer:
        reply = await read(peer, offset, queue_id=1)
        assert (reply.code, reply.remark) == (code, "NO_MESSAGE_IN_QUEUE")
        assert place(reply) == (0, 0, 0)


async def test_a_moved_offset_is_told_once_a_queue(reading: Reading, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "hanabi.broker.handlers.pull")
    async with consuming(reading) as peer:
        for _ in range(3):
            await read(peer, 5)
        await read(peer, 5, queue_id=1)

    assert [record.getMessage().split(": ", 1)[1] for record in caplog.records] == [
        f"group billing asks for 5 of Orders queue {queue}, which has 0 to 0: corrected to 0 (NO_MATCHED_LOGIC_QUEUE)"
        for queue in (0, 1)
    ]


async def test_a_slave_that_may_lack_messages_sends_the_consumer_to_another_broker(tmp_path: Path) -> None:
    reading = Reading(tmp_path, BrokerConfig(broker_name="broker-a", slave_read_enabled=True))
    async with consuming(reading) as peer:
        reading.store.reader.corrects_offsets = False
        reading.change_group(broker_id=3)
        reply = await read(peer, 5)
        assert reply.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert place(reply)[0] == 5
        assert reply.header(PullMessageReplyHeader).suggest_which_broker_id == 3


async def test_a_file_of_the_queue_that_is_gone_is_passed_over_at_once(reading: Reading) -> None:
    async with consuming(reading) as peer:
        reading.put(*[b"%d" % number for number in range(25)])
        reading.store.flush()
        queue = Path(reading.store.config.root) / "consumequeue" / TOPIC / "0"
        reading.store._queues.descriptors.close()
        (queue / f"{0:020d}").unlink()
        reply = await read(peer, 3, sys_flag=SUSPEND)
        assert (reply.code, reply.remark) == (ResponseCode.PULL_NOT_FOUND, "OFFSET_FOUND_NULL")
        assert place(reply)[0] == 10


async def test_a_pull_that_the_system_refuses_to_read_is_an_error_and_moves_no_offset(reading: Reading) -> None:
    async with consuming(reading) as peer:
        reading.put(*[b"%d" % number for number in range(25)])
        reading.store.flush()
        for sys_flag in (0, SUSPEND, SUBSCRIPTION):
            reading.store._queues.descriptors.close()
            with no_free_descriptors():
                reply = await read(peer, 3, sys_flag=sys_flag)
            assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert "Too many open files" in str(reply.remark)
        assert bodies(await read(peer, 3, max_msg_nums=2)) == [b"3", b"4"]


@pytest.mark.parametrize(
    ("enabled", "far_behind", "suggested"), [(False, True, 0), (True, True, 7), (True, False, 5), (False, False, 0)]
)
async def test_who_is_far_behind_is_sent_to_the_broker_that_its_group_names(
    tmp_path: Path, *, enabled: bool, far_behind: bool, suggested: int
) -> None:
    reading = Reading(
        tmp_path,
        BrokerConfig(broker_name="broker-a", slave_read_enabled=enabled),
        memory_bytes=1_000 if far_behind else 1 << 30,
    )
    async with consuming(reading) as peer:
        reading.change_group(which_broker_when_consume_slowly=7, broker_id=5)
        reading.put(b"0", bytes(5_000))
        reply = await read(peer, max_msg_nums=1)
        assert bodies(reply) == [b"0"]
        assert reply.header(PullMessageReplyHeader).suggest_which_broker_id == suggested


# Who may


async def test_a_broker_that_may_not_be_read_says_so(reading: Reading) -> None:
    async with consuming(reading) as peer:
        reading.change(permission=2, advertised_host="10.0.0.9")
        assert refusal(await read(peer)) == (
            ResponseCode.NO_PERMISSION,
            "the broker[10.0.0.9] pulling message is forbidden",
            {},
        )


async def test_a_group_that_does_not_exist_or_may_not_consume_gets_nothing(reading: Reading) -> None:
    async with consuming(reading) as peer:
        reading.change_group(consume_enable=False)
        assert refusal(await read(peer)) == (
            ResponseCode.NO_PERMISSION,
            "subscription group no permission, billing",
            {},
        )
        reading.change(auto_create_group=False)
        assert refusal(await read(peer, consumer_group="unknown")) == (
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            f"subscription group [unknown] does not exist, {SEE}",
            {},
        )


async def test_a_topic_that_does_not_exist_or_may_not_be_read_gives_nothing(reading: Reading) -> None:
    async with consuming(reading) as peer:
        assert refusal(await read(peer, topic="Unknown")) == (
            ResponseCode.TOPIC_NOT_EXIST,
            f"topic[Unknown] not exist, apply first please! {SEE}",
            {},
        )
        reading.change_topic(perm=2)
        assert refusal(await read(peer)) == (
            ResponseCode.NO_PERMISSION,
            "the topic[Orders] pulling message is forbidden",
            {},
        )


@pytest.mark.parametrize("queue_id", [-1, QUEUES, 2**31 - 1])
async def test_a_queue_that_the_topic_does_not_have_is_refused(reading: Reading, queue_id: int) -> None:
    async with consuming(reading) as peer:
        consumer = "{}:{}".format(*peer.local_address)
        assert refusal(await read(peer, queue_id=queue_id)) == (
            ResponseCode.SYSTEM_ERROR,
            f"queueId[{queue_id}] is illegal, topic:[Orders] topicConfig.readQueueNums:[4] consumer:[{consumer}]",
            {},
        )


async def test_a_broken_header_fails_alone(reading: Reading) -> None:
    async with consuming(reading) as peer:
        reading.put(b"0")
        for broken in ({}, {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "many"}):
            reply = await peer.ask(RequestCode.PULL_MESSAGE, broken)
            assert reply.code == ResponseCode.SYSTEM_ERROR
            assert "PullMessageHeader" in (reply.remark or "")
        assert bodies(await read(peer)) == [b"0"]


# What is subscribed to


async def test_without_a_heartbeat_there_is_no_subscription(reading: Reading) -> None:
    async with consuming(reading, subscribed=None) as peer:
        assert refusal(await read(peer)) == (
            ResponseCode.SUBSCRIPTION_NOT_EXIST,
            "the consumer's group info not exist" + SEE,
            {},
        )
        await subscribe(peer, topic="Other")
        assert refusal(await read(peer)) == (
            ResponseCode.SUBSCRIPTION_NOT_EXIST,
            "the consumer's subscription not exist" + SEE,
            {},
        )


async def test_a_subscription_older_than_the_consumers_own_is_not_used(reading: Reading) -> None:
    async with consuming(reading, version=7) as peer:
        reading.put(b"0")
        assert refusal(await read(peer, sub_version=8)) == (
            ResponseCode.SUBSCRIPTION_NOT_LATEST,
            "the consumer's subscription not latest",
            {},
        )
        assert bodies(await read(peer, sub_version=7)) == [b"0"]


async def test_a_group_may_be_forbidden_to_broadcast(reading: Reading) -> None:
    async with consuming(reading, model=MessageModel.BROADCASTING) as peer:
        reading.put(b"0")
        assert bodies(await read(peer)) == [b"0"]
        reading.change_group(consume_broadcast_enable=False)
        assert refusal(await read(peer)) == (
            ResponseCode.NO_PERMISSION,
            "the consumer group[billing] can not consume by broadcast way",
            {},
        )
        assert bodies(await read(peer, sys_flag=SUBSCRIPTION, subscription="*")) == [b"0"]


async def test_only_messages_with_the_tags_of_the_heartbeat_come(reading: Reading) -> None:
    async with consuming(reading, subscribed="created || paid") as peer:
        for number, tag in enumerate(["created", "sent", "paid", ""]):
            reading.put(b"%d" % number, tags=tag)
        reply = await read(peer)
        assert bodies(reply) == [b"0", b"2"]
        assert place(reply)[0] == 4
        await subscribe(peer, "sent", version=2)
        assert bodies(await read(peer)) == [b"1"]


async def test_when_no_message_matches_the_consumer_goes_on_behind_them_at_once(reading: Reading) -> None:
    async with consuming(reading, subscribed="paid") as peer:
        reading.put(b"0", b"1", tags="created")
        reply = await read(peer, sys_flag=SUSPEND)
        assert (reply.code, reply.remark) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")
        assert place(reply) == (2, 0, 2)


async def test_a_pull_may_carry_its_own_tags(reading: Reading) -> None:
    async with consuming(reading, subscribed=None) as peer:
        reading.put(b"0", tags="created")
        reading.put(b"1", tags="paid")
        for _ in range(2):  # the second time from what is kept
            for text, expected in (
                ("created", [b"0"]),
                ("*", [b"0", b"1"]),
                (None, [b"0", b"1"]),
                ("", [b"0", b"1"]),
            ):
                assert bodies(await read(peer, sys_flag=SUBSCRIPTION, subscription=text)) == expected
        reply = await read(peer, sys_flag=SUBSCRIPTION, subscription="created", expression_type=None)
        assert bodies(reply) == [b"0"]


async def test_a_pull_may_carry_its_own_expression(reading: Reading) -> None:
    async with consuming(reading, subscribed=None) as peer:
        reading.put(b"0", amount="5")
        reading.put(b"1", amount="50")
        wanted: dict[str, Any] = {
            "sys_flag": SUBSCRIPTION,
            "subscription": "amount > 10",
            "expression_type": "SQL92",
        }
        assert bodies(await read(peer, **wanted)) == [b"1"]
        reading.change(property_filter_enabled=False)
        assert refusal(await read(peer, **wanted)) == (
            ResponseCode.SYSTEM_ERROR,
            "The broker does not support consumer to filter message by SQL92",
            {},
        )


@pytest.mark.parametrize(
    ("text", "kind"), [("||", "TAG"), ("amount >", "SQL92"), ("", "SQL92"), (None, "SQL92"), ("a", "Groovy")]
)
async def test_a_subscription_that_cannot_be_read_is_refused_with_the_reason(
    reading: Reading, text: str | None, kind: str
) -> None:
    async with consuming(reading, subscribed=None) as peer:
        reply = await read(peer, sys_flag=SUBSCRIPTION, subscription=text, expression_type=kind)
        assert reply.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        remark = reply.remark or ""
        assert remark.startswith("parse the consumer's subscription failed: ")
        assert len(remark) > 50


async def test_only_messages_that_fit_the_expression_of_the_heartbeat_come(reading: Reading) -> None:
    async with consuming(reading, subscribed="amount > 10", kind="SQL92", version=3) as peer:
        reading.put(b"0", amount="5")
        reading.put(b"1", amount="50")
        reading.put(b"2")
        for _ in range(2):
            reply = await read(peer, sub_version=3)
            assert bodies(reply) == [b"1"]
            assert place(reply)[0] == 3
        await subscribe(peer, "amount < 10", kind="SQL92", version=4)
        assert bodies(await read(peer, sub_version=4)) == [b"0"]
        reading.change(property_filter_enabled=False)
        assert (await read(peer)).code == ResponseCode.SYSTEM_ERROR


async def test_an_expression_that_the_broker_does_not_have_is_told_to_the_consumer(reading: Reading) -> None:
    async with consuming(reading, subscribed="amount > 10", kind="SQL92", version=3) as peer:
        data = reading.filters.find(TOPIC, GROUP)
        assert data is not None
        await subscribe(peer, "amount >", kind="SQL92", version=5)
        assert refusal(await read(peer)) == (
            ResponseCode.FILTER_DATA_NOT_EXIST,
            "The broker's consumer filter data is not exist!Your expression may be wrong!",
            {},
        )
        reading.filters._put(data)
        assert refusal(await read(peer, sub_version=4)) == (
            ResponseCode.FILTER_DATA_NOT_LATEST,
            "the consumer's consumer filter data not latest",
            {},
        )


async def test_ten_thousand_subscriptions_of_their_own_leave_no_more_than_a_thousand_filters(reading: Reading) -> None:
    async with consuming(reading, subscribed=None) as peer:
        group = reading.groups.find(GROUP)
        assert group is not None
        for number in range(10_000):
            reading.pull_filters.find(pull(sys_flag=SUBSCRIPTION, subscription=f"tag-{number}"), group)
        assert len(reading.pull_filters._own) <= 1_000
        reading.put(b"0", tags="tag-1")
        assert bodies(await read(peer, sys_flag=SUBSCRIPTION, subscription="tag-1")) == [b"0"]


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("a", ["a"]),
        (" a ||b|| a", ["a", "b"]),
        ("a||", ["a"]),
        ("||a", ["a"]),
        (" || ", []),
        ("|||", ["|"]),
        ("a|b", ["a|b"]),
        ("\u00a0a", ["\u00a0a"]),  # which Java's trim leaves alone
    ],
)
def test_tags_are_read_as_java_reads_them(text: str, tags: list[str]) -> None:
    parsed = parse_subscription("T", text, "TAG", 1)
    assert parsed.tags_set == tags
    assert parsed.code_set == [java_hash(tag) for tag in tags]
    assert parsed.sub_string == text


# Committing by the way


async def test_a_pull_commits_when_its_flag_says_so_and_never_backwards(reading: Reading) -> None:
    async with consuming(reading) as peer:
        reading.put(b"0", b"1", b"2")
        await read(peer, commit_offset=1)
        assert reading.offsets.find(GROUP, TOPIC, 0) == -1
        await read(peer, commit_offset=2, sys_flag=COMMIT)
        await read(peer, commit_offset=1, sys_flag=COMMIT)
        await read(peer, commit_offset=-1, sys_flag=COMMIT)
        assert reading.offsets.find(GROUP, TOPIC, 0) == 2


async def test_a_pull_that_is_held_commits_at_once_and_not_again_when_it_is_woken(reading: Reading) -> None:
    async with consuming(reading) as peer:
        reading.put(b"0")
        answer = ask(peer, 1, commit_offset=1, sys_flag=COMMIT | SUSPEND)
        await reading.until_held()
        assert reading.offsets.find(GROUP, TOPIC, 0) == 1
        reading.offsets.reset(GROUP, TOPIC, 0, 0)
        reading.put(b"1")
        await answer
        assert reading.offsets.find(GROUP, TOPIC, 0) == 0


async def test_a_refused_pull_commits_nothing_and_a_slave_never_does(tmp_path: Path) -> None:
    reading = Reading(tmp_path, BrokerConfig(broker_name="broker-a", broker_role=BrokerRole.SLAVE))
    async with consuming(reading) as peer:
        await read(peer, queue_id=9, commit_offset=2, sys_flag=COMMIT)
        await read(peer, commit_offset=2, sys_flag=COMMIT)
        assert len(reading.offsets) == 0


async def test_a_full_table_of_offsets_is_no_reason_to_withhold_messages(
    reading: Reading, caplog: pytest.LogCaptureFixture
) -> None:
    async with consuming(reading) as peer:
        reading.put(b"0")
        reading.offsets._offsets_max = 0
        for _ in range(2):
            assert bodies(await read(peer, commit_offset=1, sys_flag=COMMIT)) == [b"0"]

    assert len([record for record in caplog.records if "is not committed" in record.getMessage()]) == 1


# Held


async def test_a_held_pull_is_answered_when_a_message_arrives(reading: Reading) -> None:
    async with consuming(reading) as peer:
        answer = ask(peer)
        await reading.until_held()
        reading.put(b"other", queue_id=1)
        assert len(reading.held_pulls) == 1
        reading.put(b"0", b"1")
        reply = await answer
        assert bodies(reply) == [b"0", b"1"]  # both, though the first one woke it
        assert reply.remark == "FOUND"
        assert place(reply) == (2, 0, 2)
        assert len(reading.held_pulls) == 0


async def test_pulls_of_many_groups_on_one_queue_are_all_answered(reading: Reading) -> None:
    async with consuming(reading, subscribed=None) as peer:
        groups = [f"group-{number}" for number in range(20)]
        for group in groups:
            await subscribe(peer, group=group)
        answers = [ask(peer, consumer_group=group) for group in groups]
        await reading.until_held(20)
        reading.put(b"0")
        assert [bodies(reply) for reply in await asyncio.gather(*answers)] == [[b"0"]] * 20


async def test_a_held_pull_is_woken_only_by_tags_that_it_wants(reading: Reading) -> None:
    async with consuming(reading, subscribed="paid") as peer:
        answer = ask(peer)
        await reading.until_held()
        reading.put(b"0", b"1", tags="created")
        await asyncio.sleep(0)
        assert len(reading.held_pulls) == 1
        reading.put(b"2", tags="paid")
        assert bodies(await answer) == [b"2"]


async def test_a_held_pull_is_woken_only_by_what_fits_its_expression(reading: Reading) -> None:
    async with consuming(reading, subscribed="amount > 10", kind="SQL92") as peer:
        answer = ask(peer)
        await reading.until_held()
        reading.put(b"0", amount="5")
        assert len(reading.held_pulls) == 1
        reading.put(b"1", amount="50")
        assert bodies(await answer) == [b"1"]


async def test_a_held_pull_whose_time_is_over_goes_on_behind_what_it_did_not_want(reading: Reading) -> None:
    async with consuming(reading, subscribed="paid") as peer:
        answer = ask(peer)
        await reading.until_held()
        reading.put(b"0", b"1", tags="created")
        await reading.later(15_000)
        reply = await answer
        assert (reply.code, reply.remark) == (ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE")
        assert place(reply) == (2, 0, 2)


@pytest.mark.parametrize("form", list(HeaderForm))
async def test_a_held_pull_waits_as_long_as_it_asked_and_no_longer(reading: Reading, form: HeaderForm) -> None:
    async with consuming(reading) as peer:
        answer = ask(peer, suspend_timeout_millis=20_000, form=form)
        await reading.until_held()
        await reading.later(19_999)
        assert len(reading.held_pulls) == 1
        await reading.later(1)
        reply = await answer
        assert (reply.code, reply.remark) == (ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE")
        assert place(reply) == (0, 0, 0)


@pytest.mark.parametrize(("flag", "wait_ms"), [(0, 15_000), (SUSPEND, 0), (SUSPEND, -1)])
async def test_who_does_not_want_to_wait_is_answered_at_once(reading: Reading, flag: int, wait_ms: int) -> None:
    async with consuming(reading) as peer:
        reply = await read(peer, sys_flag=flag, suspend_timeout_millis=wait_ms)
        assert reply.code == ResponseCode.PULL_NOT_FOUND


async def test_with_short_polling_the_broker_looks_again_after_its_own_time(tmp_path: Path) -> None:
    reading = Reading(
        tmp_path, BrokerConfig(broker_name="broker-a", long_polling_enabled=False, short_polling_ms=3_000)
    )
    async with consuming(reading) as peer:
        answer = ask(peer)
        await reading.until_held()
        reading.put(b"0")
        await reading.later(2_999)
        assert len(reading.held_pulls) == 1
        await reading.later(1)
        assert bodies(await answer) == [b"0"]


async def test_a_message_that_arrives_between_the_read_and_the_hold_wakes(reading: Reading) -> None:
    async with consuming(reading) as peer:
        hold = reading.held_pulls.hold

        def late(*args: Any, **kwargs: Any) -> Any:
            reading.put(b"0")
            return hold(*args, **kwargs)

        reading.held_pulls.hold = late  # type: ignore[method-assign]
        assert bodies(await ask(peer)) == [b"0"]


async def test_above_the_limit_pulls_are_answered_at_once(tmp_path: Path) -> None:
    reading = Reading(tmp_path, BrokerConfig(broker_name="broker-a", held_pulls_max=3))
    async with consuming(reading) as peer:
        answers = [ask(peer) for _ in range(3)]
        await reading.until_held(3)
        reply = await ask(peer)
        assert (reply.code, reply.remark) == (ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE")
        reading.put(b"0")
        assert [bodies(reply) for reply in await asyncio.gather(*answers)] == [[b"0"]] * 3


async def test_a_pull_is_checked_again_when_it_is_woken(reading: Reading) -> None:
    async with consuming(reading) as peer:
        answer = ask(peer)
        await reading.until_held()
        reading.change_group(consume_enable=False)
        reading.put(b"0")
        assert (await answer).code == ResponseCode.NO_PERMISSION


async def test_pulls_of_a_connection_that_goes_away_are_forgotten(reading: Reading) -> None:
    async with consuming(reading) as peer, reading.served() as address:
        other = await Peer.connect(address)
        for queue_id in range(4):
            ask(other, queue_id=queue_id)
        answer = ask(peer)
        await reading.until_held(5)
        await other.close()
        await reading.until_held(1)
        reading.put(b"0")
        assert bodies(await answer) == [b"0"]


async def test_the_connection_serves_others_while_thousands_are_held_and_all_are_answered_at_the_end(
    reading: Reading,
) -> None:
    async with consuming(reading) as peer:
        reading.put(b"0")
        answers = [ask(peer, 1) for _ in range(2_000)]
        await reading.until_held(2_000)
        assert bodies(await read(peer)) == [b"0"]
        reading.held_pulls.release()
        replies = await asyncio.gather(*answers)
        assert {(reply.code, place(reply)) for reply in replies} == {(ResponseCode.PULL_NOT_FOUND, (1, 0, 1))}
        assert (await ask(peer, 1)).code == ResponseCode.PULL_NOT_FOUND  # from here on nothing is held


async def test_held_pulls_of_a_peer_that_does_not_read_bring_it_nothing_that_would_fill_our_memory(
    reading: Reading,
) -> None:
    count = 2_000
    try:
        async with reading.served() as address, connected(address) as reader:
            await subscribe(reader)
            stream, writer = await asyncio.open_connection(*address, limit=1024)
            raw = header_fields(pull(sys_flag=SUSPEND, suspend_timeout_millis=600_000))
            writer.writelines(encode_request(RequestCode.PULL_MESSAGE, n, raw) for n in range(count))
            await reading.until_held(count)
            reading.put(*[b"x" * 1_000] * 10)  # 20 MB for all
            await reading.until_held(0)
            assert (await ask(reader)).code == ResponseCode.SUCCESS  # whoever reads gets them meanwhile
            await reading.until_answered()
            codes: list[int] = []
            size = 0
            for _ in range(count):
                length = int.from_bytes(await stream.readexactly(4), "big")
                reply = decode_command(await stream.readexactly(length))
                codes.append(reply.code)
                size += length
                assert place(reply)[0] == (10 if reply.code == ResponseCode.SUCCESS else 0)
            assert set(codes) == {ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY}
            assert size < 15_000_000
            writer.close()
    finally:
        reading.close()


async def test_a_consumer_at_the_end_of_the_queue_gets_every_message_once_and_in_order(reading: Reading) -> None:
    async with consuming(reading) as peer:
        got: list[bytes] = []
        offset = 0

        async def consume() -> None:
            nonlocal offset
            while len(got) < 500:
                reply = await ask(peer, offset)
                got.extend(bodies(reply))
                offset = place(reply)[0]

        task = asyncio.create_task(consume())
        for number in range(500):
            reading.put(b"%d" % number)
            if number % 7 == 0:
                await asyncio.sleep(0)
        async with asyncio.timeout(60):
            await task
        assert got == [b"%d" % number for number in range(500)]
