"""The name server's settings: RocketMQ's names and defaults, read from namesrv.conf.

Agrees with NamesrvConfig and NettyServerConfig of 4.9.8. A bad value stops the start and names its key. A key that
is not here gets one warning line, since RocketMQ's files carry keys that we do not have.
"""

import logging
from pathlib import Path
from typing import Annotated

import msgspec

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
    write_buffer_high_water_mark: Count = 0  # bytes; 0 leaves it to us
    # Ours, not RocketMQ's: what brokers may make us remember.
    brokers_max: Positive = RouteLimits().brokers_max
    topics_per_broker_max: Positive = RouteLimits().topics_per_broker_max
    topics_total_max: Positive = RouteLimits().topics_total_max
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

    def routes(self) -> RouteLimits:
        """Return the route table's limits."""
        return RouteLimits(
            brokers_max=self.brokers_max,
            topics_per_broker_max=self.topics_per_broker_max,
            topics_total_max=self.topics_total_max,
        )


OURS = frozenset({"brokersMax", "topicsPerBrokerMax", "topicsTotalMax"})
KEYS = {item.encode_name: item.name for item in msgspec.structs.fields(NamesrvConfig)}


def as_properties(config: NamesrvConfig) -> dict[str, str]:
    """RocketMQ's settings as text, under its names. Ours are left out: its tools show what its name server would."""
    values = zip(KEYS, msgspec.structs.astuple(config), strict=True)
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in values if key not in OURS
    }


def read_config(path: Path) -> NamesrvConfig:
    """Return the settings in a namesrv.conf; a key that it does not have keeps its default."""
    try:
        properties = decode_properties(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    for key in properties.keys() - KEYS.keys():
        logger.warning("%s: %s is not a setting of this name server and has no effect", path, key)
    try:
        return with_properties(NamesrvConfig(), {key: properties[key] for key in properties if key in KEYS})
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
