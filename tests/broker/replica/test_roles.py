"""Tests of what a role decides: broker ids and the port for slaves. Agrees with BrokerStartup of 4.9.8 and 5.3.3."""

import pytest

from hanabi.broker.replica.roles import BrokerRole, checked_broker_id, ha_port
from hanabi.errors import ConfigError


@pytest.mark.parametrize("role", [BrokerRole.ASYNC_MASTER, BrokerRole.SYNC_MASTER])
def test_a_master_has_id_0_whatever_the_file_says(role: BrokerRole) -> None:
    assert checked_broker_id(role, 7) == 0


def test_a_slave_keeps_its_id_and_may_not_have_a_masters() -> None:
    assert checked_broker_id(BrokerRole.SLAVE, 7) == 7
    with pytest.raises(ConfigError, match="brokerRole = SLAVE needs a brokerId of 1 or more"):
        checked_broker_id(BrokerRole.SLAVE, 0)


@pytest.mark.parametrize(
    ("configured", "listen_port", "port"), [(0, 10911, 10912), (10999, 10911, 10999), (0, 0, 0), (10999, 0, 10999)]
)
def test_slaves_connect_to_the_next_port_unless_the_file_says_otherwise(
    configured: int, listen_port: int, port: int
) -> None:
    assert ha_port(configured, listen_port) == port


def test_the_last_port_has_none_after_it() -> None:
    with pytest.raises(ConfigError, match="set haListenPort"):
        ha_port(0, 65_535)
