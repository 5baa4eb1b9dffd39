"""Listeners of decoded messages, and the dead letters that bodies without a value become."""

import logging

import msgspec
import pytest

from hanabi import ConsumeLater, DeadLetters, Message, Producer, PushConsumer, StoredMessage
from hanabi.codecs import Json, Received
from hanabi.errors import ConfigError
from hanabi.testing.embedded import EmbeddedCluster
from hanabi.testing.waiting import wait_until
from tests.client.consumer.stored import stored as stored_message

DEAD = "%DLQ%billing"


class Order(msgspec.Struct):
    number: int


ORDERS = Json(Order)


def send(cluster: EmbeddedCluster, bad: set[int], count: int) -> None:
    with Producer("shop", namesrv=cluster.namesrv) as producer:
        for number in range(count):
            good = ORDERS.message("Orders", Order(number))
            producer.send(Message("Orders", b"bad %d" % number) if number in bad else good)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_bad_bodies_become_dead_letters_at_once_and_the_others_are_consumed(
    hanabi_cluster: EmbeddedCluster, ordered: bool, asynchronous: bool, caplog: pytest.LogCaptureFixture
) -> None:
    hanabi_cluster.create_topic("Orders", queues=1)
    send(hanabi_cluster, bad={0, 3, 4}, count=8)
    consumer = PushConsumer("billing", namesrv=hanabi_cluster.namesrv, consume_from="first", consume_batch=8)
    consumer.subscribe("Orders")
    numbers: list[int] = []

    def bill(received: list[Received[Order]]) -> None:
        numbers.extend(each.value.number for each in received)

    async def bill_later(received: list[Received[Order]]) -> None:
        bill(received)

    register = consumer.listener(ordered=ordered)
    if asynchronous:
        register(ORDERS.listener(bill_later))
    else:
        register(ORDERS.listener(bill))
    with caplog.at_level(logging.WARNING), consumer:
        wait_until(lambda: len(hanabi_cluster.messages(DEAD)) == 3, "the dead letters")
        wait_until(lambda: sorted(numbers) == [1, 2, 5, 6, 7], "the good ones")
    assert sorted(message.body for message in hanabi_cluster.messages(DEAD)) == [b"bad 0", b"bad 3", b"bad 4"]
    assert "application/json body" in caplog.text
    assert "becomes a dead letter" in caplog.text
    if ordered:
        assert numbers == [1, 2, 5, 6, 7]


def messages(*bodies: bytes) -> list[StoredMessage]:
    return [stored_message(body=body, queue_offset=number) for number, body in enumerate(bodies)]


@pytest.mark.parametrize(
    ("succeeded", "counted"),
    [(0, 0), (1, 1), (2, 1)],  # good, bad, good, good: a bad one is not counted as consumed
)
def test_the_consumed_messages_of_a_failed_batch_are_counted_up_to_the_first_bad_one(
    succeeded: int, counted: int
) -> None:
    @ORDERS.listener
    def listen(received: list[Received[Order]]) -> None:
        raise ConsumeLater("busy", delay_level=2, succeeded=succeeded)

    good = ORDERS.encode(Order(1))
    with pytest.raises(ConsumeLater, match="busy") as raised:
        listen(messages(good, b"bad", good, good))
    assert (raised.value.succeeded, raised.value.delay_level) == (counted, 2)


def test_another_error_of_the_listener_passes_through() -> None:
    @ORDERS.listener
    def listen(received: list[Received[Order]]) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        listen(messages(ORDERS.encode(Order(1)), b"bad"))


def test_dead_letters_need_positions() -> None:
    assert DeadLetters(positions=[3, 1, 3]).positions == (1, 3)
    for wrong in ([], [-1]):
        with pytest.raises(ConfigError, match="positions"):
            DeadLetters(positions=wrong)
