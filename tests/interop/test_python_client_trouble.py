"""Our client and an Apache broker in trouble: one that is too busy, and one that is killed under load."""

import asyncio
import time
from collections import Counter
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from hanabi.client.config import ClientConfig
from hanabi.client.consumer.push.consumer import PushConsumer
from hanabi.client.producer.producer import Producer
from hanabi.client.send_result import SendResult
from hanabi.message import Message, StoredMessage
from hanabi.testing.waiting import eventually
from tests.faults.client_load import DEADLINE_S, SENDERS, Consumption, Load
from tests.interop.apache import ApacheBroker
from tests.interop.jars import ALL_5
from tests.interop.ours import OurNameServer

TOPIC = "Trouble"
AT_ONCE = 3_000
SETTINGS = {
    "flushDiskType": "SYNC_FLUSH",
    "flushConsumerOffsetInterval": 500,
    # One thread, and what has waited a few milliseconds for it is refused: TIMEOUT_CLEAN_QUEUE.
    "sendMessageThreadPoolNums": 1,
    "waitTimeMillsInSendQueue": 5,
    "mappedFileSizeCommitLog": 1 << 26,
}


class Story(NamedTuple):
    many: list[SendResult]
    sends_at_a_time: int  # that were left of as many as the settings allow
    load: Load
    consumed: list[Consumption]


async def play(namesrv: str, broker: ApacheBroker) -> Story:
    config = ClientConfig(namesrv=namesrv, request_timeout_s=20.0, persist_offsets_s=0.5)
    consumed: list[Consumption] = []
    consumer = PushConsumer("InTrouble", config=config, consume_from="first")
    consumer.subscribe(TOPIC)

    @consumer.listener
    async def keep(messages: list[StoredMessage]) -> None:
        for each in messages:
            place = each.queue_id, each.queue_offset
            consumed.append(Consumption(time.time(), "", place, each.message_id, each.body.decode()))

    async with Producer("Troubled", config=config, send_timeout_s=20.0) as producer:
        await producer.send(Message(TOPIC, b"the first"))
        messages = [Message(TOPIC, b"many-%d" % number) for number in range(AT_ONCE)]
        many = await producer.send_many(messages)
        sends_at_a_time = producer._must_run().gate.limit
        load = Load(producer, TOPIC)
        load.acknowledged += ["the first", *(message.body.decode() for message in messages)]
        async with consumer:
            sending = asyncio.create_task(load.run())
            try:
                await eventually(lambda: len(consumed) > AT_ONCE + 100, "the first messages", seconds=DEADLINE_S)
                broker.process.kill()
                broker.start_again()
                await asyncio.to_thread(broker.wait_ready)
                seen = len(load.acknowledged), len(consumed)
                await eventually(
                    lambda: len(load.acknowledged) > seen[0] + 200 and len(consumed) > seen[1] + 200,
                    "more",
                    seconds=DEADLINE_S,
                )
            finally:
                load.stop()
                await sending
            wanted = set(load.acknowledged)
            await eventually(
                lambda: wanted <= {each.body for each in consumed},
                "everything acknowledged is consumed",
                seconds=DEADLINE_S,
            )
    return Story(many, sends_at_a_time, load, consumed)


@pytest.fixture(scope="module")
def story(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Story:
    home = tmp_path_factory.mktemp("trouble")
    with ExitStack() as stack:
        name_server = OurNameServer(home / "namesrv")
        stack.callback(name_server.process.kill)
        name_server.wait_ready()
        broker = ApacheBroker(
            home / "broker", ALL_5, name="broker-a", cluster="C", namesrv=name_server.address, settings=SETTINGS
        )
        stack.callback(lambda: broker.process.kill())
        broker.wait_ready()
        return asyncio.run(play(name_server.address, broker))


def test_a_busy_broker_gets_fewer_at_a_time_until_all_are_stored(story: Story) -> None:
    assert len(story.many) == AT_ONCE
    assert story.sends_at_a_time < 10_000, "nothing was refused, so nothing is proved"


def test_nothing_that_was_acknowledged_is_lost_when_the_broker_is_killed(story: Story) -> None:
    assert set(story.load.acknowledged) <= {each.body for each in story.consumed}


def test_nothing_is_consumed_that_was_never_stored(story: Story) -> None:
    assert {each.body for each in story.consumed} <= {*story.load.acknowledged, *story.load.unknown}
    assert not {each.body for each in story.consumed} & set(story.load.refused)


def test_a_message_is_stored_twice_only_where_its_answer_was_lost(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {each.place: each.body for each in story.consumed}
    stored = Counter(places.values())
    twice = sum(stored.values()) - len(stored)
    again = len(story.consumed) - len(places)
    load = story.load
    with capsys.disabled():
        print(  # noqa: T201
            f"\n{len(load.acknowledged)} acknowledged, {len(load.refused)} refused, {len(load.unknown)} without an"
            f" answer; {twice} stored twice, {again} delivered again; {story.sends_at_a_time} at a time when busy"
        )
    busy = sum(count - 1 for body, count in stored.items() if body.startswith("many-"))
    assert busy <= AT_ONCE / 100, "what a busy broker refuses is not stored, but for a race in its queue"
    assert twice - busy <= 2 * SENDERS
