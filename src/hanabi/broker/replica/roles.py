"""Role of a broker in its replication group, and what follows from it. Pure. Agrees with BrokerStartup (4.9.8)."""

from enum import StrEnum
from typing import Final

from hanabi.errors import ConfigError

MASTER_ID: Final = 0
PORT_MAX: Final = 65_535


class BrokerRole(StrEnum):
    """Values of brokerRole."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


def checked_broker_id(role: str, configured: int) -> int:
    """Return the broker id of *role*: a master's is always 0. Raise ConfigError for a slave that has a master's id."""
    if role != BrokerRole.SLAVE:
        return MASTER_ID
    if configured == MASTER_ID:
        raise ConfigError(
            "brokerRole = SLAVE needs a brokerId of 1 or more, one for each slave of a master: 0 is the master's"
        )
    return configured


def ha_port(configured: int, listen_port: int) -> int:
    """Return the port for slaves: haListenPort, or the port after listenPort; 0 means any free port.

    Any free port is chosen if listenPort is any free port too: the one after it may be taken. Agrees with 5.3.3; 4.9
    ignores haListenPort.
    """
    if configured or not listen_port:
        return configured
    if listen_port == PORT_MAX:
        raise ConfigError(f"listenPort {PORT_MAX} leaves no port for slaves: set haListenPort")
    return listen_port + 1
