"""The name server's settings: RocketMQ's names and defaults, read from namesrv.conf.

Agrees with NamesrvConfig and NettyServerConfig of 4.9.8. A bad value stops the start and names its key. A key that
is not here gets one warning line, since RocketMQ's files carry keys that we do not have.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import msgspec

from hanabi.access.demands import name_server_demands_nothing
from hanabi.access.plain.writes import WriteGate, WriteProtection
from hanabi.errors import ConfigError
from hanabi.namesrv.limits import RouteLimits
from hanabi.remoting.config import RemotingConfig
from hanabi.wire.java_properties import decode_properties
from hanabi.wire.settings_text import with_properties

logger = logging.getLogger(__name__)

Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
EnvName = Annotated[str, msgspec.Meta(max_length=255)]  # anybody may change it: room for a name, not for a file


class NamesrvConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Settings of one name server. An empty path means: in `namesrv/` below `--home`."""

    listen_port: Port = 9876
    order_message_enable: bool = False  # send the order configuration of a topic with its route
    kv_config_path: str = ""
    config_store_path: str = ""  # shown, not obeyed: where settings changed at run time are kept
    rocketmq_home: str = ""
    config_black_list: str = "configBlackList;configStorePath;kvConfigPath"  # not to be changed at run time
    product_env_name: EnvName = "center"
    server_channel_max_idle_time_seconds: Positive = 120
    # 5.x: slaves that act as masters
    support_acting_master: bool = False  # routes show such a slave as the master
    notify_min_broker_id_changed: bool = False  # tell the brokers of a name when its smallest id changes
    scan_not_active_broker_interval: Positive = 5_000  # milliseconds
    enable_controller_in_namesrv: bool = False  # 5.x: a controller in the same process
    controller_listen_port: Port = 19_876  # ours: its port
    write_buffer_high_water_mark: Count = 0  # bytes; 0 leaves it to us
    # Ours, not RocketMQ's: what brokers may make us remember.
    brokers_max: Positive = RouteLimits().brokers_max
    topics_per_broker_max: Positive = RouteLimits().topics_per_broker_max
    topics_total_max: Positive = RouteLimits().topics_total_max
    # Ours: see `access.plain.writes`.
    write_protection_enable: bool = False
    write_allowed_peers: str = ""
    write_allowed_certificates: str = ""
    acl_folder: str = ""
    # Read and shown so that RocketMQ's files and tools work; here is nothing for them to tune: one event loop
    # answers everything, buffers grow and shrink by themselves, and no other environment is asked for routes.
    cluster_test: bool = False
    server_socket_backlog: Positive = 1024
    server_worker_threads: Count = 8
    server_callback_executor_threads: Count = 0
    server_selector_threads: Count = 3
    server_oneway_semaphore_value: Count = 256
    server_async_semaphore_value: Count = 64
    server_socket_snd_buf_size: Count = 0
    server_socket_rcv_buf_size: Count = 0
    write_buffer_low_water_mark: Count = 0
    server_pooled_byte_buf_allocator_enable: bool = True
    use_epoll_native_selector: bool = False

    def remoting(self) -> RemotingConfig:
        """Return the transport's limits."""
        limits = RemotingConfig(idle_seconds=float(self.server_channel_max_idle_time_seconds))
        if self.write_buffer_high_water_mark:
            return msgspec.structs.replace(limits, write_buffer_bytes_max=self.write_buffer_high_water_mark)
        return limits

    def write_protection(self, now_ms: Callable[[], int]) -> WriteProtection | None:
        """Return the protection of writes, if it is on."""
        if not self.write_protection_enable:
            return None
        gate = WriteGate(
            name_server_demands_nothing,
            peers=self.write_allowed_peers,
            certificates=self.write_allowed_certificates,
            acl_folder=self.acl_folder,
            now_ms=now_ms,
        )
        return WriteProtection(gate)

    def routes(self) -> RouteLimits:
        """Return the route table's limits."""
        return RouteLimits(
            brokers_max=self.brokers_max,
            topics_per_broker_max=self.topics_per_broker_max,
            topics_total_max=self.topics_total_max,
        )


PROTECTION = frozenset({"writeProtectionEnable", "writeAllowedPeers", "writeAllowedCertificates", "aclFolder"})
OURS = frozenset({"brokersMax", "topicsPerBrokerMax", "topicsTotalMax", "controllerListenPort"}) | PROTECTION
OF_5 = frozenset(
    {
        "supportActingMaster",
        "notifyMinBrokerIdChanged",
        "scanNotActiveBrokerInterval",
        "enableControllerInNamesrv",
    }
)
KEYS = {item.encode_name: item.name for item in msgspec.structs.fields(NamesrvConfig)}


def as_properties(config: NamesrvConfig) -> dict[str, str]:
    """RocketMQ's settings as text, under its names, for its tools. Ours are left out, and keys that only 5.x has unless
    they are set: 4.9's tools show what its name server would."""
    shown = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in _values(config)}
    defaults = dict(_values(NamesrvConfig()))
    same = {key for key, value in _values(config) if value == defaults[key]}
    return {key: text for key, text in shown.items() if key not in OURS and not (key in OF_5 and key in same)}


def _values(config: NamesrvConfig) -> Iterable[tuple[str, object]]:
    return zip(KEYS, msgspec.structs.astuple(config), strict=True)


def embedded_config(protection: Mapping[str, str], host: str, port: int) -> NamesrvConfig:
    """Return the settings of a name server on *host* and *port*, with a broker in its process.

    *protection* has keys of `PROTECTION`. Without writeAllowedPeers the addresses of this process may write: the broker
    registers by them.
    """
    config = with_properties(NamesrvConfig(listen_port=port), protection)
    if config.write_protection_enable and not config.write_allowed_peers:
        peers = ["127.0.0.1", "::1"]
        with suppress(ValueError):  # a name
            if not ip_address(host).is_unspecified:
                peers.append(host)
        config = msgspec.structs.replace(config, write_allowed_peers=", ".join(dict.fromkeys(peers)))
    return config


def read_config(path: Path, also: Collection[str] = ()) -> NamesrvConfig:
    """Return the settings in a namesrv.conf; a key that it does not have keeps its default. Keys of *also* are another
    server's."""
    try:
        properties = decode_properties(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    for key in properties.keys() - KEYS.keys() - set(also):
        logger.warning("%s: %s is not a setting of this name server and has no effect", path, key)
    try:
        return with_properties(NamesrvConfig(), {key: properties[key] for key in properties if key in KEYS})
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
