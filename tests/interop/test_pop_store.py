"""A store with POP messages in flight changes hands between Apache's broker of 5.3.3 and ours."""

from pathlib import Path

import pytest

from hanabi.wire.codes import RequestCode
from tests.interop.apache import SMALL_FILES, ApacheBroker
from tests.interop.ours import OurBroker
from tests.interop.probe import ask
from tests.interop.test_pop import BROKER, GROUP, JARS, TOPIC, create_topic, handle, popped, send

SETTINGS = {"timerWheelEnable": "true"}
INVISIBLE_MS = 10_000
SENT = [f"m{number}" for number in range(8)]
ACKNOWLEDGED = {"m1", "m4", "m5"}
UNACKNOWLEDGED = sorted(set(SENT) - ACKNOWLEDGED)
LONG_S = 120.0


def pop_all(address: str, wait_ms: int = 0) -> list[str]:
    pop = {
        "consumerGroup": GROUP,
        "topic": TOPIC,
        "queueId": "-1",
        "maxMsgNums": "32",
        "invisibleTime": str(INVISIBLE_MS),
        "pollTime": str(wait_ms),
        "initMode": "0",
    }
    reply = ask(address, RequestCode.POP_MESSAGE, pop)
    if reply.code:
        return []
    return [body for body, _, _ in popped(reply)]


def pop_and_acknowledge_some(address: str) -> None:
    """Pop all messages of queue 0, and acknowledge three of them."""
    create_topic(address)
    send(address, *SENT, queue_id=0)
    pop = {
        "consumerGroup": GROUP,
        "topic": TOPIC,
        "queueId": "0",
        "maxMsgNums": "32",
        "invisibleTime": str(INVISIBLE_MS),
        "pollTime": "0",
        "initMode": "0",
    }
    reply = ask(address, RequestCode.POP_MESSAGE, pop)
    assert [body for body, _, _ in popped(reply)] == SENT
    for body, queue_id, offset in popped(reply):
        if body in ACKNOWLEDGED:
            ack = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": str(queue_id), "offset": str(offset)}
            ack["extraInfo"] = handle(reply, queue_id, offset)
            assert ask(address, RequestCode.ACK_MESSAGE, ack).code == 0


def collect(address: str, broker: ApacheBroker | OurBroker, count: int) -> list[str]:
    """Pop until *count* messages came."""
    found: list[str] = []

    def has_all() -> bool:
        found.extend(pop_all(address))
        return len(set(found)) >= count

    broker.process.wait_until(has_all, f"deliver {count} messages again", LONG_S)
    return found


@pytest.mark.slow
def test_what_apaches_consumers_did_not_acknowledge_our_broker_delivers(apache_jars: None, tmp_path: Path) -> None:
    home = tmp_path / "site"
    apache = ApacheBroker(home, JARS, name=BROKER, cluster="DefaultCluster", namesrv=None, settings=SETTINGS)
    try:
        apache.wait_ready()
        pop_and_acknowledge_some(apache.address)
        apache.process.stop()
    finally:
        apache.process.kill()
    ours = OurBroker(home, name=BROKER, namesrv=None, settings=SMALL_FILES)
    try:
        ours.wait_ready()
        assert sorted(collect(ours.address, ours, len(UNACKNOWLEDGED))) == UNACKNOWLEDGED
    finally:
        ours.process.kill()


@pytest.mark.slow
def test_what_our_consumers_did_not_acknowledge_apaches_broker_delivers(apache_jars: None, tmp_path: Path) -> None:
    home = tmp_path / "site"
    ours = OurBroker(home, name=BROKER, namesrv=None, settings=SMALL_FILES)
    try:
        ours.wait_ready()
        pop_and_acknowledge_some(ours.address)
        ours.process.stop()
    finally:
        ours.process.kill()
    apache = ApacheBroker(home, JARS, name=BROKER, cluster="DefaultCluster", namesrv=None, settings=SETTINGS)
    try:
        apache.wait_ready()
        assert set(UNACKNOWLEDGED) <= set(collect(apache.address, apache, len(UNACKNOWLEDGED)))
    finally:
        apache.process.kill()
