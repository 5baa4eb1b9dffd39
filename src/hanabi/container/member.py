"""A broker of a container as its file describes it: its identity, its ports, its directory, and conflicts of two.

Agrees with BrokerContainerProcessor.addBroker of 5.3.3, and checks more: two brokers of one machine must not share a
port or a directory.
"""

import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from hanabi.broker.config import BrokerConfig, read_broker_config
from hanabi.broker.replica.roles import checked_broker_id
from hanabi.errors import ConfigError
from hanabi.store.config import StoreConfig

FILE_BYTES_MAX: Final = 1 << 20
FAST_PORT_BELOW: Final = 2
HA_PORT_ABOVE: Final = 1


class Identity(NamedTuple):
    """The identity of a broker in its container; as text it is Java's canonical name."""

    cluster: str
    name: str
    broker_id: int

    def __str__(self) -> str:
        return f"{self.cluster}_{self.name}_{self.broker_id}"


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that the container runs or is to run."""

    identity: Identity
    file: Path
    listen_port: int
    ports: frozenset[int]  # that it listens on; empty if it takes any free one
    home: Path
    waits_for_its_master: bool  # an acting slave that may not hand due messages to another master

    @property
    def label(self) -> str:
        """Return the name in log lines."""
        return f"{self.identity.name}:{self.identity.broker_id}"


def read_member(file: Path) -> Member:
    """Return the broker that *file* describes. Raise ConfigError if it cannot be one of a container."""
    _check_file(file)
    broker, store = read_broker_config(file)
    _check_replicas(file, broker)
    return Member(
        identity=Identity(broker.cluster_name, broker.broker_name, _broker_id(file, broker)),
        file=file.absolute(),
        listen_port=broker.listen_port,
        ports=_ports(broker),
        home=_home(store),
        waits_for_its_master=broker.acting_master_enabled and not broker.remote_escape_enabled,
    )


def _check_file(file: Path) -> None:
    """Refuse what is no file, which a peer may name: a device has no end, and a pipe blocks until there is a writer."""
    try:
        found = file.stat()
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise ConfigError(f"{file}: {getattr(error, 'strerror', None) or error}") from error
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(f"{file}: not a regular file")
    if found.st_size > FILE_BYTES_MAX:
        raise ConfigError(f"{file}: {found.st_size} bytes, the settings of a broker have at most {FILE_BYTES_MAX}")


def _broker_id(file: Path, broker: BrokerConfig) -> int:
    """Return the id by which the container knows the broker; in controller mode the file's, as in Java."""
    if broker.controller_mode_enabled:
        return broker.broker_id
    try:
        return checked_broker_id(broker.broker_role, broker.broker_id)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from error


def _check_replicas(file: Path, broker: BrokerConfig) -> None:
    wanted = broker.in_sync_replicas or 1
    if not broker.total_replicas >= wanted >= broker.min_in_sync_replicas:
        raise ConfigError(
            f"{file}: invalid replicas number: totalReplicas {broker.total_replicas} must be at least"
            f" inSyncReplicas {wanted}, and that at least minInSyncReplicas {broker.min_in_sync_replicas}"
        )


def _ports(broker: BrokerConfig) -> frozenset[int]:
    port = broker.listen_port
    if not port:
        return frozenset()
    fast = {port - FAST_PORT_BELOW} if broker.fast_port_enabled is not False else set()
    return frozenset({port, broker.ha_listen_port or port + HA_PORT_ABOVE, *fast})


def _home(store: StoreConfig) -> Path:
    return Path(store.root).expanduser().resolve()


def check_beside(new: Member, others: Iterable[Member]) -> None:
    """Raise ConfigError if *new* cannot run beside *others*."""
    for other in others:
        if new.identity == other.identity:
            raise ConfigError(f"{new.identity} has already been added to current broker container ({other.file})")
        if new.home == other.home:
            raise ConfigError(f"{new.file}: storePathRootDir {new.home} is that of {other.file}: give each its own")
        if shared := new.ports & other.ports:
            raise ConfigError(
                f"{new.file}: port {min(shared)} is also of {other.file}: a broker listens on listenPort, on"
                f" listenPort - {FAST_PORT_BELOW} and on listenPort + {HA_PORT_ABOVE} (haListenPort)"
            )
