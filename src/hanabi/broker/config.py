"""The broker's settings: RocketMQ's names and defaults, read from broker.conf.

Agrees with BrokerConfig, NettyServerConfig and the part of MessageStoreConfig (4.9.8) that is not the store's own; the
store's keys are `store.config.StoreConfig`, read from the same file. The keys of replication are inherited from
`replication.config.ReplicationConfig`. An invalid value stops the start and names its
key. An unknown key is logged once. Java's keys that have no use here are in `ignored_keys.py`.
"""

import logging
import os
import socket
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import field

from hanabi.access.policies.keys import INIT_USER, INNER_CREDENTIALS, check_class, read_codes
from hanabi.access.quotas.quota import KEY as QUOTAS
from hanabi.access.quotas.quota import read_quotas
from hanabi.broker.ignored_keys import IGNORED_KEYS, IGNORED_WITH_A_LINE, NOT_TO_BE_IGNORED
from hanabi.broker.replica.roles import MASTER_ID, BrokerRole
from hanabi.errors import ConfigError
from hanabi.remoting.config import RemotingConfig
from hanabi.replication.config import ReplicationConfig
from hanabi.store.config import STORE_KEYS, StoreConfig
from hanabi.wire.java_properties import decode_properties
from hanabi.wire.settings_text import shortened, with_properties
from hanabi.wire.system_names import TRACE_TOPIC

logger = logging.getLogger(__name__)

Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Long = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Permission = Annotated[int, msgspec.Meta(ge=0, le=15)]
Share = Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)]
RequestMode = Literal["PULL", "POP"]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]

DEFAULT_BROKER_NAME = "DEFAULT_BROKER"


def local_host_name() -> str:
    """Return the default name of a broker, as Apache does."""
    return socket.gethostname() or DEFAULT_BROKER_NAME


class BrokerConfig(ReplicationConfig, frozen=True, kw_only=True):
    """Settings of one broker. Each attribute names its key of broker.conf."""

    # identity and addresses
    broker_name: Name = field(default_factory=local_host_name, name="brokerName")
    cluster_name: Name = field(default="DefaultCluster", name="brokerClusterName")
    broker_id: Long = field(default=MASTER_ID, name="brokerId")
    broker_role: BrokerRole = field(default=BrokerRole.ASYNC_MASTER, name="brokerRole")
    listen_port: Port = field(default=10911, name="listenPort")
    advertised_host: str = field(default="", name="brokerIP1")  # address or name; empty: chosen when we listen
    ha_advertised_host: str = field(default="", name="brokerIP2")  # for slaves
    ha_listen_port: Port = field(default=0, name="haListenPort")  # for slaves; 0: listenPort + 1
    ha_master_address: str = field(default="", name="haMasterAddress")  # HOST:PORT; empty: the name servers tell it
    namesrv_addr: str = field(default="", name="namesrvAddr")  # HOST:PORT[;HOST:PORT...]
    region_id: str = field(default="DefaultRegion", name="regionId")

    # controller mode
    controller_addr: str = field(default="", name="controllerAddr")  # HOST:PORT[;HOST:PORT...]
    controller_heartbeat_timeout_ms: Positive = field(default=10_000, name="controllerHeartBeatTimeoutMills")
    sync_metadata_period_ms: Positive = field(default=5_000, name="syncBrokerMetadataPeriod")
    check_sync_set_period_ms: Positive = field(default=5_000, name="checkSyncStateSetPeriod")
    election_priority: Count = field(default=2**31 - 1, name="brokerElectionPriority")  # the smaller is preferred
    fence_without_controller: bool = field(default=True, name="fenceWithoutController")  # ours

    # registration
    register_interval_ms: Count = field(default=30_000, name="registerNameServerPeriod")  # kept within 10 to 60 s
    register_timeout_ms: Positive = field(default=6_000, name="registerBrokerTimeoutMills")
    compressed_register: bool = field(default=False, name="compressedRegister")
    force_register: bool = field(default=True, name="forceRegister")

    # a slave that acts as master
    remote_escape_enabled: bool = field(default=False, name="enableRemoteEscape")
    skip_pre_online: bool = field(default=False, name="skipPreOnline")
    heartbeat_interval_to_namesrv_ms: Positive = field(default=1_000, name="brokerHeartbeatInterval")
    heartbeat_timeout_to_namesrv_ms: Positive = field(default=1_000, name="sendHeartbeatTimeoutMillis")
    not_active_timeout_ms: Positive = field(default=10_000, name="brokerNotActiveTimeoutMillis")

    # topics and groups
    permission: Permission = field(default=6, name="brokerPermission")  # 4 read, 2 write, 1 inherit
    default_topic_queue_nums: Positive = field(default=8, name="defaultTopicQueueNums")
    auto_create_topic: bool = field(default=True, name="autoCreateTopicEnable")
    auto_create_group: bool = field(default=True, name="autoCreateSubscriptionGroup")
    cluster_topic_enabled: bool = field(default=True, name="clusterTopicEnable")
    broker_topic_enabled: bool = field(default=True, name="brokerTopicEnable")
    trace_topic_enabled: bool = field(default=False, name="traceTopicEnable")
    trace_topic_name: Name = field(default=TRACE_TOPIC, name="msgTraceTopicName")
    trace_on: bool = field(default=True, name="traceOn")

    # sends
    fast_failure_enabled: bool = field(default=True, name="brokerFastFailureEnable")
    send_wait_ms_max: Long = field(default=200, name="waitTimeMillsInSendQueue")
    start_accept_sends_at_ms: Long = field(default=0, name="startAcceptSendRequestTimeStamp")
    reject_transactions: bool = field(default=False, name="rejectTransactionMessage")
    store_reply_messages: bool = field(default=True, name="storeReplyMessageEnable")

    # pulls
    long_polling_enabled: bool = field(default=True, name="longPollingEnable")
    short_polling_ms: Long = field(default=1_000, name="shortPollingTimeMills")
    slave_read_enabled: bool = field(default=False, name="slaveReadEnable")
    offset_check_in_slave: bool = field(default=False, name="offsetCheckInSlave")
    notify_consumer_ids_changed: bool = field(default=True, name="notifyConsumerIdsChangedEnable")
    disable_slow_consumers: bool = field(default=False, name="disableConsumeIfConsumerReadSlowly")
    consumer_fall_behind_bytes: Long = field(default=16 << 30, name="consumerFallbehindThreshold")
    flush_offsets_interval_ms: Positive = field(default=5_000, name="flushConsumerOffsetInterval")

    # POP
    retry_topic_v2_enabled: bool = field(default=False, name="enableRetryTopicV2")
    default_request_mode: RequestMode = field(default="PULL", name="defaultMessageRequestMode")
    default_pop_share_queues: Share = field(default=-1, name="defaultPopShareQueueNum")

    # filters
    property_filter_enabled: bool = field(default=True, name="enablePropertyFilter")  # SQL92; Apache's default is off
    filter_support_retry: bool = field(default=False, name="filterSupportRetry")
    filter_bitmap_enabled: bool = field(default=False, name="enableCalcFilterBitMap")
    expected_filter_consumers: Positive = field(default=32, name="expectConsumerNumUseFilter")
    bloom_error_rate_max: Positive = field(default=20, name="maxErrorRateOfBloomFilter")  # percent
    filter_clean_span_ms: Long = field(default=24 * 3_600_000, name="filterDataCleanTimeSpan")

    # delays and transactions
    message_delay_levels: str = field(
        default="1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h", name="messageDelayLevel"
    )
    flush_delay_offset_interval_ms: Positive = field(default=10_000, name="flushDelayOffsetInterval")
    timer_enabled: bool = field(default=True, name="timerWheelEnable")
    timer_max_delay_sec: Positive = field(default=3 * 24 * 3_600, name="timerMaxDelaySec")
    recall_enabled: bool = field(default=True, name="recallMessageEnable")  # Apache's default is off
    transaction_timeout_ms: Long = field(default=6_000, name="transactionTimeOut")
    transaction_check_max: Count = field(default=15, name="transactionCheckMax")
    transaction_check_interval_ms: Positive = field(default=60_000, name="transactionCheckInterval")

    # statistics
    detail_stats_enabled: bool = field(default=True, name="enableDetailStat")
    auto_delete_unused_stats: bool = field(default=False, name="autoDeleteUnusedStats")

    # the transport
    idle_seconds_max: Positive = field(default=120, name="serverChannelMaxIdleTimeSeconds")
    write_buffer_bytes_max: Count = field(default=0, name="writeBufferHighWaterMark")  # 0: our default

    # access control
    acl_enabled: bool = field(default=False, name="aclEnable")
    acl_folder: str = field(default="", name="aclFolder")  # ours, as is the next; with plain_acl.yml and acl/
    acl_open_white_list: bool = field(default=False, name="aclOpenWhiteList")
    authentication_enabled: bool = field(default=False, name="authenticationEnabled")
    authentication_provider: str = field(default="", name="authenticationProvider")
    authentication_metadata_provider: str = field(default="", name="authenticationMetadataProvider")
    authentication_strategy: str = field(default="", name="authenticationStrategy")
    authentication_white_list: str = field(default="", name="authenticationWhitelist")  # request codes
    authorization_enabled: bool = field(default=False, name="authorizationEnabled")
    authorization_provider: str = field(default="", name="authorizationProvider")
    authorization_metadata_provider: str = field(default="", name="authorizationMetadataProvider")
    authorization_strategy: str = field(default="", name="authorizationStrategy")
    authorization_white_list: str = field(default="", name="authorizationWhitelist")
    init_user: str = field(default="", name=INIT_USER)  # JSON, as is the next; both with a secret
    inner_credentials: str = field(default="", name=INNER_CREDENTIALS)
    # Ours, as are the next: JSON; a client's certificate names its account; the longest delay of a refusal, 0: none.
    account_quotas: str = field(default="", name=QUOTAS)
    certificate_accounts: bool = field(default=False, name="certificateAccountsEnable")
    guess_delay_ms: Count = field(default=1_000, name="wrongSignatureDelayMaxMillis")
    migrate_accounts: bool = field(default=False, name="migrateAuthFromV1Enabled")
    audit_enabled: bool = field(default=True, name="auditLogEnable")  # ours, as are the next; with access control
    audit_path: str = field(default="", name="auditLogPath")
    audit_file_bytes: Positive = field(default=64 << 20, name="auditLogFileBytes")
    audit_files: Positive = field(default=10, name="auditLogFiles")

    # Hanabi's own keys
    fast_port_enabled: bool | None = field(default=None, name="fastListenPortEnable")  # unset: if the port is free
    advertised_port: Port = field(default=0, name="advertisedPort")  # with brokerIP1; 0: the port we listen on
    connections_max: Positive = field(default=20_000, name="connectionsMax")  # on each port, if there are files for it
    held_pulls_max: Positive = field(default=100_000, name="heldPullsMax")
    topics_max: Positive = field(default=50_000, name="topicsMax")  # the limit of our name server for one broker
    groups_max: Positive = field(default=50_000, name="groupsMax")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bloom_error_rate_max >= 100:
            raise ConfigError(f"maxErrorRateOfBloomFilter is between 1 and 99, not {self.bloom_error_rate_max}")
        self._check_access()

    def _check_access(self) -> None:
        check_class("authenticationProvider", self.authentication_provider)
        check_class("authenticationMetadataProvider", self.authentication_metadata_provider)
        check_class("authenticationStrategy", self.authentication_strategy)
        check_class("authorizationProvider", self.authorization_provider)
        check_class("authorizationMetadataProvider", self.authorization_metadata_provider)
        check_class("authorizationStrategy", self.authorization_strategy)
        read_codes("authenticationWhitelist", self.authentication_white_list)
        read_codes("authorizationWhitelist", self.authorization_white_list)
        read_quotas(self.account_quotas)

    @property
    def namesrv_addresses(self) -> tuple[str, ...]:
        """Name servers to register with, without duplicates, in order."""
        return tuple(dict.fromkeys(part.strip() for part in self.namesrv_addr.split(";") if part.strip()))

    @property
    def checks_access(self) -> bool:
        """Return whether requests need an identity."""
        return self.acl_enabled or self.authentication_enabled

    @property
    def controller_addresses(self) -> tuple[str, ...]:
        """Controllers, without duplicates, in order."""
        return tuple(dict.fromkeys(part.strip() for part in self.controller_addr.split(";") if part.strip()))

    @property
    def reply_topic(self) -> str:
        return f"{self.cluster_name}_REPLY_TOPIC"

    def remoting(self) -> RemotingConfig:
        """Return the transport limits of these settings."""
        limits = RemotingConfig(idle_seconds=float(self.idle_seconds_max), connections_max=self.connections_max)
        if self.write_buffer_bytes_max:
            return msgspec.structs.replace(limits, write_buffer_bytes_max=self.write_buffer_bytes_max)
        return limits


SECRET_KEYS = frozenset({INIT_USER, INNER_CREDENTIALS})
HIDDEN = "******"


def check_identities(config: BrokerConfig) -> None:
    """Raise ConfigError if rights are checked and identities are not. Not part of the struct: files are read key by
    key."""
    if config.authorization_enabled and not config.authentication_enabled:
        raise ConfigError(
            "authorizationEnabled = true needs authenticationEnabled = true: without signatures a client may give"
            " any name"
        )
    if config.account_quotas and not config.checks_access:
        raise ConfigError(f"{QUOTAS} needs aclEnable = true or authenticationEnabled = true")
    if config.certificate_accounts and not config.checks_access:
        raise ConfigError("certificateAccountsEnable = true needs aclEnable = true or authenticationEnabled = true")


BROKER_KEYS = {item.encode_name: item.name for item in msgspec.structs.fields(BrokerConfig)}


def as_properties(config: BrokerConfig | StoreConfig) -> dict[str, str]:
    """Return the settings as text under RocketMQ's names; unset ones are left out, as Java leaves out nulls. Secrets
    are not shown."""
    fields = msgspec.structs.fields(type(config))
    values = ((item.encode_name, getattr(config, item.name)) for item in fields)
    return {key: _shown(key, value) for key, value in values if value is not None}


def _shown(key: str, value: object) -> str:
    if key in SECRET_KEYS and value:
        return HIDDEN
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse_broker_config(
    properties: Mapping[str, str], broker: BrokerConfig | None = None, store: StoreConfig | None = None
) -> tuple[BrokerConfig, StoreConfig]:
    """Return the settings in *properties* over those given; keys of neither struct are ignored."""
    for_broker = {key: value for key, value in properties.items() if key in BROKER_KEYS}
    for_store = {key: value for key, value in properties.items() if key in STORE_KEYS}
    return with_properties(broker or BrokerConfig(), for_broker), with_properties(store or StoreConfig(), for_store)


def read_broker_config(path: Path, also: Collection[str] = ()) -> tuple[BrokerConfig, StoreConfig]:
    """Return the settings in a broker.conf; missing keys have their defaults. Keys of *also* are another server's."""
    try:
        properties = decode_properties(path.read_bytes())
        for key in properties:
            if not any(key in known for known in (BROKER_KEYS, STORE_KEYS, IGNORED_KEYS, also)):
                logger.warning("%s: %s is not a setting of this broker and has no effect", path, shortened(key))
        for key, why_not in NOT_TO_BE_IGNORED.items():
            if _is_on(properties, key):
                raise ConfigError(f"{key} = true: {why_not}")
        for key, why_not in IGNORED_WITH_A_LINE.items():
            if _is_on(properties, key):
                logger.warning("%s: %s = true has no effect: %s", path, key, why_not)
        broker, store = parse_broker_config(properties)
        check_identities(broker)
        if (broker.acl_enabled or broker.migrate_accounts) and not broker.acl_folder:
            broker = msgspec.structs.replace(broker, acl_folder=str(_acl_folder(path)))
        return broker, store
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _acl_folder(path: Path) -> Path:
    """Return where Apache's broker has its files of access control; beside the settings if it is not installed here."""
    home = os.environ.get("ROCKETMQ_HOME")
    return Path(home) / "conf" if home else path.absolute().parent


def _is_on(properties: Mapping[str, str], key: str) -> bool:
    return properties.get(key, "").strip().lower() == "true"
