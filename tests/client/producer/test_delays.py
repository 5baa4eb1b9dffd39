"""Delays of messages, as timedelta and as datetime."""

from datetime import UTC, datetime, timedelta

import pytest

from hanabi import Message, Producer
from hanabi.errors import InvalidMessage
from hanabi.message import StoredMessage
from hanabi.testing.embedded import EmbeddedCluster
from hanabi.testing.waiting import wait_until
from hanabi.wire.message.properties import sending_properties

NOON = datetime(2040, 1, 1, 12, tzinfo=UTC)


def bodies(cluster: EmbeddedCluster) -> list[bytes]:
    return sorted(message.body for message in cluster.messages("T"))


def test_delayed_messages_arrive_at_their_time_and_not_before(hanabi_cluster: EmbeddedCluster) -> None:
    now = datetime.now(UTC)
    with Producer("g", namesrv=hanabi_cluster.namesrv) as producer:
        producer.send(Message("T", b"none", delay=timedelta(0)))
        producer.send(Message("T", b"delay", delay=timedelta(minutes=10)))
        producer.send(Message("T", b"at", deliver_at=now + timedelta(minutes=20)))
        producer.send(
            Message("T", b"local", deliver_at=(now + timedelta(minutes=30)).astimezone().replace(tzinfo=None))
        )
    expected = [b"none"]
    for body in (b"delay", b"at", b"local"):
        hanabi_cluster.clock.advance(minutes=9)
        assert bodies(hanabi_cluster) == sorted(expected)
        hanabi_cluster.clock.advance(minutes=1, seconds=2)
        expected.append(body)
        wait_until(lambda: bodies(hanabi_cluster) == sorted(expected), f"{body!r} is due")
    assert all(isinstance(message, StoredMessage) for message in hanabi_cluster.messages("T"))


def test_fractions_of_a_millisecond_are_rounded_up() -> None:
    assert sending_properties(Message("T", b"x", delay=timedelta(microseconds=1)))["TIMER_DELAY_MS"] == "1"
    assert sending_properties(Message("T", b"x", delay=timedelta(seconds=2)))["TIMER_DELAY_MS"] == "2000"
    at = Message("T", b"x", deliver_at=NOON + timedelta(microseconds=1))
    assert sending_properties(at)["TIMER_DELIVER_MS"] == str(int(NOON.timestamp() * 1000) + 1)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (Message("T", b"x", delay=timedelta(seconds=-1)), "negative"),
        (Message("T", b"x", delay=5), "must be a timedelta"),  # type: ignore[arg-type]
        (Message("T", b"x", deliver_at=5), "a datetime"),  # type: ignore[arg-type]
        (Message("T", b"x", deliver_at=datetime(1999, 1, 1, tzinfo=UTC)), "before 2001"),
        (Message("T", b"x", delay=timedelta(1), deliver_at=NOON), "delay and deliver_at exclude each other"),
        (Message("T", b"x", delay_level=1, delay=timedelta(1)), "delay_level and delay exclude each other"),
    ],
)
def test_a_delay_that_means_nothing_is_refused(hanabi_cluster: EmbeddedCluster, message: Message, said: str) -> None:
    with Producer("g", namesrv=hanabi_cluster.namesrv) as producer, pytest.raises(InvalidMessage, match=said):
        producer.send(message)
