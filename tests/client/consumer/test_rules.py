"""A consumer ships a rule, and the broker evaluates it: push, simple, and what is refused."""

import json
from pathlib import Path

import pytest

from hanabi import rule
from hanabi.aio import Producer, PushConsumer, SimpleConsumer
from hanabi.errors import ConfigError, SubscriptionParseFailed
from hanabi.message import Message
from hanabi.testing.cluster import running_cluster
from hanabi.testing.waiting import eventually
from tests.client.consumer.pushing import Inbox

LARGE = rule("BODY('$.amount') > 100 AND LOWER(region) = 'eu'")


def order(amount: int, region: str = "EU") -> Message:
    return Message("T", json.dumps({"amount": amount}).encode(), properties={"region": region})


async def test_only_messages_that_match_are_delivered(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        async with Producer("p", config=cluster.config()) as producer, Inbox(cluster, "g", "T", LARGE) as inbox:
            for amount, region in ((50, "EU"), (150, "EU"), (200, "US"), (300, "eu")):
                await producer.send(order(amount, region))
            await eventually(lambda: len(inbox.messages) == 2)
            await producer.send(order(400))  # to a pull that waits
            await eventually(lambda: len(inbox.messages) == 3)
            assert sorted(json.loads(body)["amount"] for body in inbox.bodies) == [150, 300, 400]
            simple = SimpleConsumer("s", config=cluster.config())
            simple.subscribe("T", LARGE)
            async with simple:
                found = [message for _ in range(5) for message in await simple.receive(32, wait_s=0.2)]
                assert sorted(json.loads(message.body)["amount"] for message in found) == [150, 300, 400]


async def test_a_rule_that_is_none_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs an expression"):
        rule(" ")
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        consumer = PushConsumer("g", config=cluster.config())
        consumer.subscribe("T", rule("SYSTEM('rm') = '1'"))
        consumer.listener(print)
        with pytest.raises(SubscriptionParseFailed, match="there is no function SYSTEM"):
            await consumer.start()
