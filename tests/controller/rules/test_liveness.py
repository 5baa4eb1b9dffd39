"""Living brokers by their heartbeats; the time is a number."""

from hanabi.controller.rules.liveness import BrokerKey, Liveness
from hanabi.wire.headers.namesrv import BrokerHeartbeatHeader


def beat(number: int | None, address: str = "h:1", timeout_ms: int | None = 100) -> BrokerHeartbeatHeader:
    return BrokerHeartbeatHeader(
        cluster_name="c",
        broker_name="a",
        broker_addr=address,
        broker_id=number,
        epoch=1,
        max_offset=5,
        heartbeat_timeout_mills=timeout_ms,
    )


def test_a_broker_is_alive_for_its_timeout_after_each_heartbeat() -> None:
    liveness, connection = Liveness(), object()
    liveness.heartbeat(beat(1), connection, 0)
    assert liveness.alive("c", "a", 100)[1].max_offset == 5
    assert not liveness.alive("c", "a", 101)
    liveness.heartbeat(beat(1), connection, 90)
    assert liveness.alive("c", "a", 190)
    assert not liveness.alive("other", "a", 190)
    assert liveness.expire(191) == [BrokerKey("c", "a", 1)]
    assert liveness.expire(192) == []


def test_the_end_of_the_last_connection_ends_a_broker() -> None:
    liveness, old, new = Liveness(), object(), object()
    liveness.heartbeat(beat(1), old, 0)
    liveness.heartbeat(beat(1), new, 1)
    assert liveness.closed(old) == []
    assert liveness.closed(new) == [BrokerKey("c", "a", 1)]
    assert not liveness.alive("c", "a", 1)


def test_a_second_broker_with_an_id_is_ignored_while_the_first_is_alive() -> None:
    liveness, first, twin = Liveness(), object(), object()
    assert liveness.heartbeat(beat(1), first, 0) is None
    assert liveness.heartbeat(beat(1, "copy:1"), twin, 1) == "h:1"
    assert liveness.alive("c", "a", 1)[1].address == "h:1"
    assert liveness.heartbeat(beat(1, "copy:1"), twin, 200) is None
    assert liveness.alive("c", "a", 200)[1].address == "copy:1"


def test_a_stall_of_this_process_ends_no_broker() -> None:
    liveness = Liveness()
    liveness.heartbeat(beat(1), object(), 0)
    liveness.stalled(1000)
    assert liveness.expire(1100) == []
    assert liveness.expire(1101)


def test_a_broker_without_an_id_is_not_alive() -> None:
    liveness = Liveness()
    liveness.heartbeat(beat(None), object(), 0)
    liveness.heartbeat(beat(-1), object(), 0)
    assert not liveness.alive("c", "a", 0)
