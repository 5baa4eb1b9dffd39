"""Identity of a broker in controller mode: the id that the controller gave it, in two small files of the store.

    brokerIdentity-temp     cluster#name#id#check code     applied for, not yet confirmed
    brokerIdentity          cluster#name#id                for good

A crash after any step leaves one of them, or none, and the next start goes on there: the check code proves to the
controller that a repeated application is ours. Agrees with BrokerMetadata and TempBrokerMetadata (5.3.3).
"""

from pathlib import Path
from typing import Final

import msgspec

from hanabi.durable_table import DurableTable, sync_directory
from hanabi.errors import ConfigError, StoreError

IDENTITY: Final = "brokerIdentity"
APPLICATION: Final = "brokerIdentity-temp"


class Identity(msgspec.Struct, frozen=True):
    """An id, and the name it belongs to."""

    cluster: str
    name: str
    broker_id: int
    check_code: str = ""


class IdentityFiles:
    """Both files of one store."""

    def __init__(self, root: Path, cluster: str, name: str) -> None:
        self._root, self._cluster, self._name = root, cluster, name
        self._identity = DurableTable(root / IDENTITY, encode=_encode, decode=_decode)
        self._application = DurableTable(root / APPLICATION, encode=_encode, decode=_decode)
        self.identity = self._checked(self._identity.load(), IDENTITY)
        self.application = self._checked(self._application.load(), APPLICATION)

    def apply(self, broker_id: int, check_code: str) -> None:
        """Note an application before it is sent. Blocks."""
        application = Identity(self._cluster, self._name, broker_id, check_code)
        self._application.save(application)
        self.application = application

    def withdraw(self) -> None:
        """Forget a refused application. Blocks."""
        self.application = None
        _remove(self._root, APPLICATION)

    def confirm(self) -> None:
        """Make the id of the application ours for good. Blocks."""
        if self.application is not None:
            identity = msgspec.structs.replace(self.application, check_code="")
            self._identity.save(identity)
            self.identity = identity
            self.withdraw()

    def _checked(self, found: Identity | None, file: str) -> Identity | None:
        if found is not None and (found.cluster, found.name) != (self._cluster, self._name):
            raise ConfigError(
                f"{self._root / file} is of broker {found.name} in cluster {found.cluster}, but the settings say"
                f" {self._name} in {self._cluster}: correct brokerName and brokerClusterName, or use another store"
            )
        return found


def _encode(identity: Identity) -> bytes:
    parts = [identity.cluster, identity.name, str(identity.broker_id)]
    return "#".join([*parts, identity.check_code] if identity.check_code else parts).encode()


def _decode(raw: bytes) -> Identity:
    cluster, name, broker_id, *rest = raw.decode().strip().split("#", 3)
    return Identity(cluster, name, int(broker_id), rest[0] if rest else "")


def _remove(root: Path, name: str) -> None:
    try:
        for file in (root / name, root / f"{name}.bak"):
            file.unlink(missing_ok=True)
        sync_directory(root)
    except OSError as error:
        raise StoreError.from_os_error(error, f"removing {root / name}") from error
