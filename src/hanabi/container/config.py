"""The container's settings: RocketMQ's names and defaults, read from broker-container.conf.

Agrees with BrokerContainerConfig of 5.3.3 and with the port of its NettyServerConfig.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import msgspec

from hanabi.access.demands import container_demands_nothing
from hanabi.access.plain.writes import WriteGate, WriteProtection
from hanabi.errors import ConfigError
from hanabi.wire.java_properties import decode_properties, format_properties
from hanabi.wire.settings_text import with_properties

DEFAULT_PORT: Final = 10_811
SEPARATOR: Final = ":"  # of brokerConfigPaths, as in Java

Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]

logger = logging.getLogger(__name__)


class ContainerConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Settings of one container."""

    listen_port: Port = DEFAULT_PORT  # of requests to the container, not of its brokers
    broker_config_paths: str = ""  # files of its brokers, separated by colons
    namesrv_addr: str = ""  # for brokers whose file has none
    # Ours: see `access.plain.writes`. ADD_BROKER starts a process, so a port that others reach needs protection.
    write_protection_enable: bool = False
    write_allowed_peers: str = ""
    write_allowed_certificates: str = ""
    acl_folder: str = ""

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the files of the brokers, in their order."""
        return tuple(Path(part.strip()) for part in self.broker_config_paths.split(SEPARATOR) if part.strip())

    def write_protection(self, now_ms: Callable[[], int]) -> WriteProtection | None:
        """Return the protection of writes, if it is on."""
        if not self.write_protection_enable:
            return None
        gate = WriteGate(
            container_demands_nothing,
            peers=self.write_allowed_peers,
            certificates=self.write_allowed_certificates,
            acl_folder=self.acl_folder,
            now_ms=now_ms,
        )
        return WriteProtection(gate)

    def text(self) -> bytes:
        """Return all settings as a properties file."""
        values = msgspec.to_builtins(self)
        shown = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in values.items()}
        return format_properties(shown).encode()


KEYS: Final = frozenset(item.encode_name for item in msgspec.structs.fields(ContainerConfig))


def read_config(path: Path) -> ContainerConfig:
    """Return the settings in a broker-container.conf; a key that it does not have keeps its default."""
    try:
        properties = decode_properties(path.read_bytes())
        for key in properties.keys() - KEYS:
            logger.warning("%s: %s is not a setting of this container and has no effect", path, key)
        return with_properties(ContainerConfig(), {key: properties[key] for key in properties if key in KEYS})
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
