"""Queues chosen by the program."""

import random
from pathlib import Path

import pytest

from hanabi.client.producer.producer import Producer
from hanabi.client.producer.routing.selectors import by_hash, by_random, chooser, hash_code, round_robin
from hanabi.errors import InvalidMessage
from hanabi.message import Message, MessageQueue
from hanabi.testing.cluster import running_cluster

QUEUES = [MessageQueue("T", "broker-a", number) for number in range(4)]
MESSAGE = Message("T", b"x")


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("", 0),
        ("order-17", 1234255109),
        ("customer", 606175198),
        ("Größe😀", 2087674644),
        (17, 17),
        (-5, -5),
        (2**31 - 1, 2**31 - 1),
        (2**31, -(2**31)),
        (2**40 + 7, 263),
        (-(2**40), -256),
        (True, 1231),
        (False, 1237),
    ],
)
def test_hashes_are_those_of_java(value: object, code: int) -> None:
    assert hash_code(value) == code


def test_by_hash_sends_one_key_to_one_queue_also_with_a_negative_hash() -> None:
    assert by_hash(QUEUES, MESSAGE, -5) is QUEUES[1]  # abs(-5 % 4) in Java
    assert by_hash(QUEUES, MESSAGE, 7) is QUEUES[3]
    assert by_hash(QUEUES, MESSAGE, "order-17") is QUEUES[1]


def test_by_hash_refuses_what_has_no_hash_in_java() -> None:
    for value in (None, 1.5, b"bytes", 2**63):
        with pytest.raises(InvalidMessage, match="by_hash needs a str or an int"):
            by_hash(QUEUES, MESSAGE, value)


def test_by_random_reaches_every_queue() -> None:
    rng = random.Random(4)
    assert {by_random(QUEUES, MESSAGE, rng) for _ in range(100)} == set(QUEUES)
    assert by_random(QUEUES, MESSAGE, None) in QUEUES


def test_round_robin_takes_turns_and_each_selector_has_its_own() -> None:
    one, other = round_robin(), round_robin()
    assert [one(QUEUES, MESSAGE, None).queue_id for _ in range(6)] == [0, 1, 2, 3, 0, 1]
    assert other(QUEUES, MESSAGE, None).queue_id == 0


def test_a_queue_of_another_topic_is_refused() -> None:
    elsewhere = MessageQueue("Other", "broker-a", 0)
    with pytest.raises(InvalidMessage, match="one of topic Other"):
        chooser(MESSAGE, elsewhere, None, None)
    with pytest.raises(InvalidMessage, match="not both"):
        chooser(MESSAGE, QUEUES[0], by_hash, 1)
    assert chooser(MESSAGE, QUEUES[0], None, None) is None


def test_a_selector_must_return_a_queue_of_the_topic() -> None:
    for wrong in (None, 3, MessageQueue("Other", "broker-a", 0)):
        choose = chooser(MESSAGE, None, lambda queues, message, arg: arg, wrong)
        assert choose is not None
        with pytest.raises(InvalidMessage, match="must return one of the queues"):
            choose(QUEUES)


async def test_an_argument_without_a_selector_is_refused(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, Producer("p", config=cluster.config()) as producer:
        await cluster.create_topic("T")
        message = Message("T", b"x")
        for send in (producer.send, producer.send_oneway, producer.request):
            with pytest.raises(InvalidMessage, match="arg='key' is for a selector"):
                await send(message, arg="key")
        with pytest.raises(InvalidMessage, match="arg='key' is for a selector"):
            await producer.send_many([message], arg="key")
        with pytest.raises(InvalidMessage, match="arg='key' is for a selector"):
            await producer.send_batch([message], arg="key")
