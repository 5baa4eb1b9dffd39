"""The controller's settings: RocketMQ's names and defaults, and what of them may be changed while it runs.

Agrees with ControllerConfig of 5.3.3. Settings about Java's threads, Raft and exporters are not here: there is nothing
for them to tune.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec

from hanabi.access.demands import controller_demands_nothing
from hanabi.access.plain.writes import WriteGate, WriteProtection
from hanabi.durable_table import DurableTable
from hanabi.errors import ConfigError, NoPermission
from hanabi.remoting.started_threads import in_own_thread
from hanabi.wire.java_properties import decode_properties, format_properties
from hanabi.wire.settings_text import shortened, with_properties

CHANGEABLE = frozenset({"enableElectUncleanMaster", "notifyBrokerRoleChanged"})
DEFAULT_PORT = 19876

Millis = Annotated[int, msgspec.Meta(ge=100, le=3_600_000)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]

logger = logging.getLogger(__name__)


class ControllerConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Settings of one controller."""

    listen_port: Port = DEFAULT_PORT
    controller_type: str = "Hanabi"  # shown, not obeyed: DLedger and jRaft are Java's
    controller_d_leger_group: str = "hanabi-controller"  # the name of the group in 1005
    enable_elect_unclean_master: bool = False  # elect a replica that is not in sync: messages may be lost
    notify_broker_role_changed: bool = True
    scan_inactive_master_interval: Millis = 5_000
    scan_not_active_broker_interval: Millis = 1_000  # Java's default is 5000
    # Ours: after its start a controller listens so long before it elects a successor of a silent master.
    election_wait_millis: Annotated[int, msgspec.Meta(ge=0, le=3_600_000)] = 10_000
    # Ours: access to etcd. The password is in a file, or in the variable HANABI_ETCD_PASSWORD.
    etcd_ca_cert: str = ""
    etcd_cert: str = ""
    etcd_key: str = ""
    etcd_user: str = ""
    etcd_password_file: str = ""
    # Ours: see `access.plain.writes`.
    write_protection_enable: bool = False
    write_allowed_peers: str = ""
    write_allowed_certificates: str = ""
    acl_folder: str = ""

    def write_protection(self, now_ms: Callable[[], int]) -> WriteProtection | None:
        """Return the protection of writes, if it is on."""
        if not self.write_protection_enable:
            return None
        gate = WriteGate(
            controller_demands_nothing,
            peers=self.write_allowed_peers,
            certificates=self.write_allowed_certificates,
            acl_folder=self.acl_folder,
            now_ms=now_ms,
        )
        return WriteProtection(gate)


KEYS = frozenset(item.encode_name for item in msgspec.structs.fields(ControllerConfig))


def read_config(path: Path, *, of_namesrv: bool = False) -> ControllerConfig:
    """Return the settings in a controller.conf; a key that it does not have keeps its default. With *of_namesrv* the
    file is a namesrv.conf, as in Java: its listenPort is not the controller's."""
    try:
        properties = decode_properties(path.read_bytes())
        if of_namesrv:
            properties = {key: value for key, value in properties.items() if key in KEYS - {"listenPort"}}
        for key in properties.keys() - KEYS:
            logger.warning("%s: %s is not a setting of this controller and has no effect", path, key)
        return with_properties(ControllerConfig(), {key: properties[key] for key in properties if key in KEYS})
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


class Settings:
    """The configuration that the controller was started with, and over it what was changed since, which is kept."""

    def __init__(self, config: ControllerConfig, path: Path) -> None:
        self._file = DurableTable(path, encode=_encode, decode=decode_properties)
        kept = self._file.load() or {}
        self._changed = {key: value for key, value in kept.items() if key in CHANGEABLE}
        self.current = with_properties(config, self._changed)
        self._changing = asyncio.Lock()

    async def change(self, text: bytes) -> None:
        """Put the properties in *text* into force, all or none, and keep them."""
        asked = decode_properties(text)
        for key in asked:
            if key not in CHANGEABLE:
                allowed = ", ".join(sorted(CHANGEABLE))
                raise NoPermission(f"Can not update config {shortened(key)}: at run time only {allowed} may be changed")
        async with self._changing:
            config = with_properties(self.current, asked)
            kept = {**self._changed, **{key: value.strip() for key, value in asked.items()}}
            await in_own_thread(self._file.save, kept)
            self.current, self._changed = config, kept
        logger.info("settings changed: %s", asked)

    def text(self) -> bytes:
        """Return all settings in force as a properties file."""
        values = msgspec.to_builtins(self.current)
        return _encode(
            {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in values.items()}
        )


def _encode(properties: dict[str, str]) -> bytes:
    return format_properties(properties).encode()
