"""Our client's POP with Apache's broker of 5.3.3: the simple consumer, and a push consumer in mode POP."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import hanabi
from hanabi.testing.waiting import wait_until
from tests.interop.apache import ApacheBroker
from tests.interop.jars import SERVERS_4
from tests.interop.ours import OurNameServer
from tests.interop.probe import routes_to
from tests.interop.test_pop import BROKER, GROUP, JARS, TOPIC, create_topic, send, set_mode

BODIES = [f"m{number}" for number in range(20)]


@pytest.fixture(scope="module")
def site(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    home = tmp_path_factory.mktemp("pop-client")
    namesrv = OurNameServer(home / "namesrv")
    apache = None
    try:
        namesrv.wait_ready()
        settings = {"timerWheelEnable": "true"}
        apache = ApacheBroker(
            home / "apache", JARS, name=BROKER, cluster="C", namesrv=namesrv.address, settings=settings
        )
        apache.wait_ready()
        create_topic(apache.address)
        apache.process.wait_until(lambda: routes_to(namesrv.address, TOPIC, BROKER), "register the topic")
        yield namesrv.address, apache.address
    finally:
        if apache is not None:
            apache.process.kill()
        namesrv.process.kill()


def test_the_simple_consumer_receives_acknowledges_and_hides(site: tuple[str, str], tmp_path: Path) -> None:
    namesrv, address = site
    with hanabi.SimpleConsumer("simple", namesrv=namesrv, request_timeout_s=30.0) as consumer:
        consumer.subscribe(TOPIC)
        send(address, *BODIES)
        got: list[hanabi.StoredMessage] = []

        def has_all() -> bool:
            got.extend(consumer.receive(32, invisible_s=600.0, wait_s=5.0))
            return len(got) >= len(BODIES)

        wait_until(has_all, "receive them")
        assert sorted(message.body.decode() for message in got) == sorted(BODIES)
        again = consumer.change_invisible(got[0], 1.0)
        assert again.properties["POP_CK"] != got[0].properties["POP_CK"]
        consumer.ack_all(got[1:])

        def comes_again() -> bool:
            found = consumer.receive(32, invisible_s=600.0, wait_s=5.0)
            assert [message.message_id for message in found] in ([], [got[0].message_id])
            consumer.ack_all(found)
            return bool(found) and found[0].reconsume_times == 1 and found[0].topic == TOPIC

        wait_until(comes_again, "the hidden message comes again")


def test_push_consumers_pop_when_the_group_is_set_so(site: tuple[str, str]) -> None:
    namesrv, address = site
    lock = threading.Lock()
    got: list[str] = []
    consumer = hanabi.PushConsumer(
        GROUP, namesrv=namesrv, consume_from="first", rebalance="broker", rebalance_s=0.5, request_timeout_s=30.0
    )
    consumer.subscribe(TOPIC)

    @consumer.listener
    def listen(messages: list[hanabi.StoredMessage]) -> None:
        with lock:
            got.extend(message.body.decode() for message in messages)

    with consumer:
        assert set_mode(address, "POP").code == 0  # the heartbeat made the group
        wait_until(lambda: {queue.queue_id for queue in consumer.queues if queue.topic == TOPIC} == {-1}, "pop")
        send(address, "last")
        wait_until(lambda: "last" in got, "consume")
    with hanabi.SimpleConsumer(GROUP, namesrv=namesrv, request_timeout_s=30.0) as simple:
        simple.subscribe(TOPIC)
        assert simple.receive(32, wait_s=0.5) == [], "all are acknowledged, or hidden for a minute"


def test_members_share_queues_themselves_where_brokers_assign_none(apache_jars: None, tmp_path: Path) -> None:
    namesrv = OurNameServer(tmp_path / "namesrv")
    apache = None
    try:
        namesrv.wait_ready()
        apache = ApacheBroker(tmp_path / "apache", SERVERS_4, name=BROKER, cluster="C", namesrv=namesrv.address)
        apache.wait_ready()
        create_topic(apache.address)
        apache.process.wait_until(lambda: routes_to(namesrv.address, TOPIC, BROKER), "register the topic")
        consumer = hanabi.PushConsumer(
            GROUP, namesrv=namesrv.address, consume_from="first", rebalance="broker", request_timeout_s=30.0
        )
        consumer.subscribe(TOPIC)
        got: list[str] = []
        consumer.listener(lambda messages: got.extend(message.body.decode() for message in messages))
        with consumer:
            send(apache.address, *BODIES)
            wait_until(lambda: sorted(got) == sorted(BODIES), "consume")
            assert {queue.queue_id for queue in consumer.queues if queue.topic == TOPIC} == {0, 1, 2, 3}
    finally:
        if apache is not None:
            apache.process.kill()
        namesrv.process.kill()
