"""Reports of a master and its slaves become one answer."""

from typing import Any

import pytest

from hanabi.admin.access import BrokerAt
from hanabi.admin.replication_report import (
    BrokerReplication,
    BrokerReport,
    SlaveReplication,
    SlaveState,
    joined,
    matched,
)
from hanabi.cli.admin.replication_text import replication_text
from hanabi.wire.bodies.ha_status import HAClientStatus, HAConnectionStatus, HAStatus

MASTER = BrokerAt(cluster="c", broker="a", broker_id=0, address="10.0.0.1:10911")
SLAVE = BrokerAt(cluster="c", broker="a", broker_id=1, address="10.0.0.2:10911")
SYNC = {"brokerRole": "SYNC_MASTER"}


def connection(addr: str = "10.0.0.2:40000", **more: Any) -> HAConnectionStatus:
    return HAConnectionStatus(**{"addr": addr, "slave_ack_offset": 100, "in_sync": True, **more})


def master(*connections: HAConnectionStatus) -> BrokerReport:
    in_sync = sum(each.in_sync for each in connections)
    status = HAStatus(
        master=True,
        master_commit_log_max_offset=100,
        in_sync_slave_nums=in_sync,
        ha_connection_info=list(connections),
    )
    return BrokerReport(MASTER, SYNC, status, log_end=100)


def slave(at: BrokerAt = SLAVE, **more: Any) -> BrokerReport:
    told = {"master_addr": "10.0.0.1:10912", "max_offset": 90, "last_read_timestamp": 1, **more}
    status = HAStatus(ha_client_runtime_info=HAClientStatus(**told))
    return BrokerReport(at, {"brokerRole": "SLAVE"}, status, log_end=told["max_offset"])


def test_a_slave_has_the_words_of_both_sides() -> None:
    found = joined([master(connection(diff=10, slave_ack_offset=90, lag_millis=1500)), slave()])
    assert (found.role, found.log_end, found.in_sync_slaves, found.ha_status) == ("SYNC_MASTER", 100, 1, True)
    assert found.slaves == [
        SlaveReplication(
            broker_id=1,
            address=SLAVE.address,
            connection="10.0.0.2:40000",
            state=SlaveState.IN_SYNC,
            log_end=90,
            lag_bytes=10,
            lag_seconds=1.5,
            bytes_per_second=0,
            follows="10.0.0.1:10912",
        )
    ]


def test_a_slave_without_a_connection_says_why() -> None:
    (row,) = joined([master(), slave(last_read_timestamp=0, trouble="the two logs differ")]).slaves
    assert (row.state, row.trouble) == (SlaveState.NOT_CONNECTED, "the two logs differ")
    (row,) = joined([master(), slave()]).slaves
    assert (row.state, row.trouble) == (SlaveState.NOT_CONNECTED, "its master has no connection from it")


def test_a_slave_far_behind_is_not_in_sync() -> None:
    (row,) = joined([master(connection(diff=300 << 20, in_sync=False)), slave()]).slaves
    assert (row.state, row.lag_seconds) == (SlaveState.BEHIND, None)


def test_brokers_before_5_are_compared_by_the_ends_of_their_logs() -> None:
    old = BrokerReport(MASTER, SYNC, log_end=100)
    found = joined([old, BrokerReport(SLAVE, log_end=60)])
    (row,) = found.slaves
    assert (found.ha_status, row.state, row.lag_bytes) == (False, SlaveState.UNKNOWN, 40)
    (row,) = joined([old, slave()]).slaves  # the slave is newer and tells that it is connected
    assert (row.state, row.lag_bytes, row.follows) == (SlaveState.IN_SYNC, 10, "10.0.0.1:10912")


def test_without_a_master_no_slave_is_connected_and_the_answer_says_so() -> None:
    found = joined([slave()])
    assert (found.master, found.slaves[0].state) == (None, SlaveState.NOT_CONNECTED)
    assert "no master" in (found.trouble or "")


def test_a_broker_that_does_not_answer_is_shown() -> None:
    found = joined([BrokerReport(MASTER, problem="timed out"), slave()])
    assert (found.trouble, found.master) == ("timed out", MASTER.address)
    (row,) = joined([master(connection()), BrokerReport(SLAVE, problem="timed out")]).slaves
    assert (row.state, row.trouble) == (SlaveState.IN_SYNC, "timed out")


@pytest.mark.parametrize(
    ("connections", "slaves", "expected"),
    [
        (["h1:5"], ["h1:10911"], ["h1:10911"]),
        (["h2:5", "h1:6"], ["h1:10911", "h2:10911"], ["h2:10911", "h1:10911"]),
        (["h1:5", "h1:6"], ["h1:10911", "h1:10921"], ["h1:10911", "h1:10921"]),
        (["nat:5"], ["h1:10911"], ["h1:10911"]),  # the only one left on each side
        (["h1:5"], ["h1:10911", "h1:10921"], [None]),  # either of them
        (["h1:5", "h9:6"], ["h1:10911"], ["h1:10911", None]),  # the second is not registered
        ([], ["h1:10911"], []),
    ],
)
def test_connections_match_slaves_by_host(connections: list[str], slaves: list[str], expected: list[str]) -> None:
    assert [address for _, address in matched([connection(addr) for addr in connections], slaves)] == expected


def test_a_limit_of_lag_is_met_or_the_answer_says_what_is_wrong() -> None:
    well = joined([master(connection(diff=10)), slave()])
    assert well.too_far_behind(10) == []
    assert well.too_far_behind(9) == ["a: slave 1 at 10.0.0.2:10911 is 10 bytes behind, which is more than 9"]
    assert joined([master()]).too_far_behind(10) == ["a: the master has no slave"]
    (wrong,) = joined([master(), slave()]).too_far_behind(1 << 40)
    assert "is not connected" in wrong


def test_the_text_names_everything_that_is_wrong() -> None:
    old = BrokerReplication(cluster="c", broker="b", master="10.0.0.9:10911", role="ASYNC_MASTER", log_end=7, slaves=[])
    text = replication_text([joined([master(connection(diff=10)), slave(trouble="the disk is full")]), old])
    assert "a (cluster c): SYNC_MASTER 10.0.0.1:10911, log end 100, slaves in sync 1\n" in text
    assert "slave 1  the disk is full" in text
    assert "no slaves" in text
    assert "older than 5.0" in text
