"""Quotas as values: text that is read, and a bucket against a slow reference."""

import asyncio
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.access.names import Surroundings
from hanabi.access.quotas.bucket import Bucket
from hanabi.access.quotas.created import CreatedTopics
from hanabi.access.quotas.meter import Excess, Meter
from hanabi.access.quotas.metering import Metering
from hanabi.access.quotas.quota import Quota, read_quotas, write_quotas
from hanabi.errors import ConfigError, NoPermission
from hanabi.grpc.backend.peer import Peer
from hanabi.remoting.connection.dispatch import Reply
from hanabi.testing.clock import ManualClock
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import Command


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "known limits are requestsPerSecond"),
        ("[]", "accountQuotas"),
        ('{"app": {"requests": 1}}', "requests"),
        ('{"app": {"requestsPerSecond": 0}}', ">= 1"),
        ('{"app": {"requestsPerSecond": "many"}}', "int"),
        ('{"app": {"connections": -1}}', ">= 0"),
        ('{"": {"connections": 1}}', "without a name"),
        ("[" * 5_000, "accountQuotas"),
        ('{"app": 7}', "accountQuotas"),
    ],
)
def test_bad_quotas_are_told_with_the_key(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match="accountQuotas") as refused:
        read_quotas(text)
    assert said in str(refused.value)


def test_ten_thousand_accounts_are_the_limit() -> None:
    quotas = {f"account-{number}": Quota(connections=number) for number in range(10_000)}
    assert read_quotas(write_quotas(quotas)) == quotas
    with pytest.raises(ConfigError, match="10001 accounts"):
        read_quotas(write_quotas(quotas | {"one-more": Quota()}))


def test_quotas_are_written_as_they_are_read() -> None:
    text = '{"*":{"connections":5},"app":{"requestsPerSecond":10,"topics":0}}'
    assert write_quotas(read_quotas(text)) == text
    assert read_quotas("  ") == {}
    assert write_quotas({}) == ""


@given(
    rate=st.integers(1, 1_000),
    steps=st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 3_000)), max_size=40),
)
def test_a_bucket_owes_what_a_slow_reference_owes(rate: int, steps: list[tuple[int, int]]) -> None:
    """The reference counts in thousandths and adds each millisecond by itself."""
    bucket, left, now_ms = Bucket(rate, 0.0), rate * 1_000, 0
    for pause_ms, amount in steps:
        for _ in range(pause_ms):
            left = min(left + rate, rate * 1_000)
        now_ms += pause_ms
        assert bucket.owed_seconds(now_ms / 1_000) == pytest.approx(max(-left, 0) / (rate * 1_000), abs=1e-6)
        bucket.take(amount)
        left -= amount * 1_000


def test_a_clock_that_stands_still_or_goes_back_gives_nothing() -> None:
    bucket = Bucket(10, 100.0)
    bucket.take(20)
    assert bucket.owed_seconds(50.0) == bucket.owed_seconds(100.0) == 1.0
    assert bucket.owed_seconds(101.0) == 0.0


class One:
    """A connection, as far as a meter knows it."""

    def __init__(self, closed: bool) -> None:
        self.closed = closed


def connection(*, closed: bool = False) -> Any:
    return One(closed)


def test_connections_have_a_place_until_they_are_closed() -> None:
    meter = Meter("app", Quota(connections=2), lambda: 0.0)
    first, second, third = connection(), connection(), connection()
    assert meter.is_over(first)  # not known yet: the handlers note it
    assert meter.excess(first) is None
    assert not meter.is_over(first)
    assert meter.excess(second) is None
    assert meter.excess(third) == Excess("connections", None)
    first.closed = True
    assert meter.excess(third) is None
    assert meter.connections == 2


def test_the_limit_that_is_exceeded_most_is_told() -> None:
    clock = ManualClock()
    meter = Meter(
        "app", Quota(requests_per_second=10, bytes_in_per_second=100, bytes_out_per_second=100), clock.seconds
    )
    one = connection()
    meter.charge(150, 400)
    assert meter.excess(one) == Excess("bytesOutPerSecond", 3.0)
    clock.ms += 3_000
    assert meter.excess(one) is None
    assert (meter.requests, meter.bytes_in, meter.bytes_out) == (1, 150, 400)


async def test_topics_that_are_being_created_count_already(tmp_path: Path) -> None:
    """Requests that a client sends one behind the other are all checked before the first topic is there."""
    there: set[str] = set()
    go_on = asyncio.Event()
    around = Surroundings("cluster", "reply", lambda _: None)
    metering = Metering(around, CreatedTopics(tmp_path / "created.json", there.__contains__), lambda *_: None)
    metering.use({"app": Quota(topics=2)})

    async def create(header: Any, _request: Command, _connection: Any) -> Reply:
        await go_on.wait()
        if header.topic == "refused":
            raise NoPermission("not this one")
        there.add(header.topic)
        return Reply()

    def ask(topic: str) -> Any:
        request = Command(code=RequestCode.UPDATE_AND_CREATE_TOPIC)
        header = SimpleNamespace(topic=topic)
        peer: Any = Peer("127.0.0.1:1", lambda: False)
        return metering.handle("app", create, header, request, peer)

    answers = [asyncio.ensure_future(ask(name)) for name in ("refused", "a")]
    with pytest.raises(NoPermission, match="topics = 2"):
        ask("b")
    go_on.set()
    results = await asyncio.gather(*answers, return_exceptions=True)
    assert isinstance(results[0], NoPermission)
    await ask("b")  # the refused one counts no more
    with pytest.raises(NoPermission, match="topics = 2"):
        ask("c")
    there.discard("a")
    abandoned = ask("c")
    abandoned.cancel()  # its client is gone
    with suppress(asyncio.CancelledError):
        await abandoned
    await asyncio.sleep(0)
    await ask("d")
    assert there == {"b", "d"}
