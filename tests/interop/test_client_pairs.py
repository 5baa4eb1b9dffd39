"""Our client and a pair of brokers whose master is killed under load and comes back: Apache's, ours, mixed."""

import asyncio
import os
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from hanabi.client.config import ClientConfig
from hanabi.client.consumer.push.consumer import PushConsumer
from hanabi.client.producer.producer import Producer
from hanabi.errors import SendFailed
from hanabi.message import Message, StoredMessage
from hanabi.testing.waiting import eventually
from hanabi.wire.codes import RequestCode
from tests.faults.client_load import DEADLINE_S, Load
from tests.interop.jars import ALL_5, SERVERS_4
from tests.interop.pairs import OURS, BrokerPair, running_pair
from tests.interop.probe import ask

TOPIC = "Paired"
QUEUES = range(4)
Place = tuple[int, int]  # queue and offset


class Kept(NamedTuple):
    """A consumer and what its listener got, in the order of arrival."""

    consumer: PushConsumer
    got: list[tuple[Place, str]]

    def has(self, wanted: set[str]) -> bool:
        return wanted <= {body for _, body in self.got}


def keeping(group: str, config: ClientConfig, *, ordered: bool = False) -> Kept:
    kept = Kept(PushConsumer(group, config=config, consume_from="first"), [])
    kept.consumer.subscribe(TOPIC)

    @kept.consumer.listener(ordered=ordered)
    async def keep(messages: list[StoredMessage]) -> None:
        kept.got.extend(((each.queue_id, each.queue_offset), each.body.decode()) for each in messages)

    return kept


class Story(NamedTuple):
    acknowledged: set[str]
    push: list[tuple[Place, str]]
    late: list[tuple[Place, str]]  # of a consumer that joined while the master was gone
    orderly: list[tuple[Place, str]]
    orderly_while_away: int
    error_while_away: str
    committed_backwards: list[tuple[int, int]]


def committed(pair: BrokerPair, group: str) -> dict[int, int]:
    """The group's offsets at the master, by its own word."""
    found = {}
    for queue_id in QUEUES:
        fields = {"consumerGroup": group, "topic": TOPIC, "queueId": str(queue_id)}
        answer = ask(pair.master.address, RequestCode.QUERY_CONSUMER_OFFSET, fields)
        found[queue_id] = int(answer.fields()["offset"]) if answer.code == 0 else -1
    return found


async def play(pair: BrokerPair) -> Story:
    config = ClientConfig(namesrv=pair.namesrv, request_timeout_s=10.0, persist_offsets_s=0.5)
    push, late = keeping("PairPush", config), keeping("PairLate", config)
    orderly = keeping("PairOrderly", config, ordered=True)
    async with AsyncExitStack() as stack:
        producer = await stack.enter_async_context(Producer("Pairing", config=config, send_timeout_s=5.0))
        await eventually_sent(producer)
        load = Load(producer, TOPIC)
        for kept in (push, orderly):
            await stack.enter_async_context(kept.consumer)
        sending = asyncio.create_task(load.run())
        try:
            await until(lambda: len(push.got) > 500 and len(orderly.got) > 500, "load")
            await until_in_thread(partial(has_copied, pair.slave.address))
            pair.master.process.kill()
            await until(lambda: load.refused, "a refused send")
            waiting = len(orderly.got)
            await stack.enter_async_context(late.consumer)
            await until(lambda: len(late.got) > 500, "messages from the slave")
            error = await failure(producer)
            away = len(orderly.got) - waiting
            pair.master.start_again()
            await asyncio.to_thread(pair.wait_known, pair.master)
            await until(lambda: len(orderly.got) > waiting + 100, "the locks again")
        finally:
            load.stop()
            await sending
        wanted = set(load.acknowledged)
        for kept in (push, late, orderly):
            await until(partial(kept.has, wanted), f"all of it at {kept.consumer.group}")
        at_master = await asyncio.to_thread(committed, pair, "PairPush")
        await asyncio.sleep(2.0)
        later = await asyncio.to_thread(committed, pair, "PairPush")
    back = [(at_master[each], later[each]) for each in QUEUES if later[each] < at_master[each]]
    return Story(wanted, push.got, late.got, orderly.got, away, error, back)


async def until(true: Callable[[], object], what: str) -> None:
    await eventually(true, what, seconds=DEADLINE_S)


def has_copied(address: str) -> bool:
    """Return whether the slave has the topic and enough of its messages for the story.

    Apache's copies topics every 10 s, of 5.x every 60 s, later if a request of its times out; without one it refuses
    every read until the master is back. Of 4.9 it asks for the log only 5 s after it has connected.
    """
    if f'"{TOPIC}"'.encode() not in ask(address, RequestCode.GET_ALL_TOPIC_CONFIG).body:
        return False
    places = ({"topic": TOPIC, "queueId": str(queue_id)} for queue_id in QUEUES)
    return sum(int(ask(address, RequestCode.GET_MAX_OFFSET, place).fields()["offset"]) for place in places) > 600


async def until_in_thread(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not await asyncio.to_thread(true):  # noqa: ASYNC110 - another process is waited for
            await asyncio.sleep(0.2)


async def eventually_sent(producer: Producer) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await producer.send(Message(TOPIC, b"the first"))
            except SendFailed:
                await asyncio.sleep(0.2)
            else:
                return


async def failure(producer: Producer) -> str:
    """The words of a send for which no master is left."""
    with pytest.raises(SendFailed) as caught:
        await producer.send(Message(TOPIC, b"nowhere to go"))
    return str(caught.value)


SLOW = pytest.mark.skipif("HANABI_SLOW_TESTS" not in os.environ, reason="more pairs: HANABI_SLOW_TESTS=1")
PAIRS = [
    (OURS, OURS),
    pytest.param((SERVERS_4, SERVERS_4), marks=SLOW),
    pytest.param((SERVERS_4, OURS), marks=SLOW),
    pytest.param((OURS, SERVERS_4), marks=SLOW),
    pytest.param((ALL_5, ALL_5), marks=SLOW),
]


@pytest.fixture(scope="module", params=PAIRS, ids=lambda kinds: f"{kinds[0]}-{kinds[1]}")
def story(apache_jars: None, request: pytest.FixtureRequest) -> Story:
    settings = {"slaveReadEnable": "true"} if ALL_5 in request.param else {}  # otherwise a 5.x slave refuses reads
    with tempfile.TemporaryDirectory() as home, running_pair(Path(home), *request.param, **settings) as pair:
        return asyncio.run(play(pair))


def test_nothing_acknowledged_is_lost_though_the_master_was_killed(story: Story) -> None:
    for got in (story.push, story.late, story.orderly):
        assert story.acknowledged <= {body for _, body in got}


def test_orderly_queues_wait_for_their_master_while_others_are_read_at_the_slave(story: Story) -> None:
    assert story.orderly_while_away == 0


def test_orderly_queues_stay_in_order(story: Story) -> None:
    highest: dict[int, int] = {}
    first_time = []
    for (queue_id, offset), _ in story.orderly:
        if offset > highest.get(queue_id, -1):
            first_time.append((queue_id, offset))
            assert offset == highest.get(queue_id, -1) + 1, "one was passed over"
            highest[queue_id] = offset
    assert len(first_time) >= len(story.acknowledged)


def test_a_send_without_any_master_says_so(story: Story) -> None:
    assert "broker-a" in story.error_while_away
    assert "master" in story.error_while_away


def test_offsets_do_not_go_back_at_the_master(story: Story) -> None:
    assert story.committed_backwards == []
