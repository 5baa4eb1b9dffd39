"""Options of `spark.read.format("rocketmq")` and `spark.readStream.format("rocketmq")`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql.types import DataType

from hanabi.client.config import ClientConfig, Credentials, TlsConfig
from hanabi.client.consumer.subscription import ALL, Expression, Sql, subscription_data
from hanabi.client.credentials import FILE_PREFIX, read_credentials
from hanabi.errors import ConfigError
from hanabi.spark.broker.topics import Wanted, parse_wanted
from hanabi.spark.shared.bounds import Bound, ending_bound, starting_bound
from hanabi.spark.shared.columns import DAMAGED, MESSAGE, RAW
from hanabi.spark.shared.option_values import OptionValues
from hanabi.wire.system_names import TOOLS_GROUP

NAME: Final = "rocketmq"
CLIENT: Final = (
    "namesrv",  # host:port, separated by semicolons
    "accessKey",
    "secretKey",
    "securityToken",
    "tls",  # true: encrypt connections
    "tlsTrustCertPath",  # CA certificates; without it, any server certificate is accepted
    "tlsCertPath",  # client certificate, for servers that request one
    "tlsKeyPath",
    "tlsKeyPassword",
    "requestTimeoutMs",  # of one request
    "retryTimeoutMs",  # how long an unreachable broker is retried
)
READ: Final = (
    *CLIENT,
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "tags",  # such as: created || paid
    "sql",  # over properties, such as: amount > 100
    "groupId",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxRowsPerBatch",
    "pullsInFlight",
    "checkCrc",
    "onDamage",  # for an unreadable body: fail; skip: leave its message out; raw: the bytes as stored
    "rawRecord",
)
BATCH: Final = (*READ, "endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
STREAM: Final = (
    *READ,
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelayMs",
    "offsetPollMs",
    "discoveryMs",
)


@dataclass(frozen=True)
class ReadOptions:
    """Selection of messages of a cluster, and how to read them."""

    client: ClientConfig
    retry_s: float
    wanted: Wanted
    starting: Bound
    expression: Expression
    group: str | None  # the group to commit offsets for
    fail_on_data_loss: bool
    partitions_min: int
    partition_rows_max: int | None
    batch_rows: int
    pulls_in_flight: int
    check_crc: bool
    on_damage: str

    @property
    def pulling_group(self) -> str:
        """The group in whose name pulls are sent."""
        return self.group or TOOLS_GROUP

    @property
    def is_filtered(self) -> bool:
        return self.expression != ALL


@dataclass(frozen=True)
class BatchOptions:
    """Options of a batch only."""

    read: ReadOptions
    ending: Bound


@dataclass(frozen=True)
class StreamOptions:
    """Options of a stream only.

    A trigger takes between min and max messages; after the maximum delay it takes fewer than min.
    """

    read: ReadOptions
    offsets_max: int | None
    offsets_min: int | None
    delay_max_s: float
    poll_s: float  # cache time of the queues' ends
    discovery_s: float  # cache time of the list of queues


def parse_batch_options(given: Mapping[str, str]) -> BatchOptions:
    """Parse the options of a batch. Raises ConfigError."""
    values = OptionValues(given, BATCH, NAME)
    ending = ending_bound(values)
    read = _read_options(values, starting_bound(values, "earliest"))
    starting = read.starting
    if starting.otherwise == "latest" and not starting.named and starting.time_ms is None:
        raise ConfigError("option startingOffsets must not be latest in a batch: nothing would be read")
    begin_ms, end_ms = starting.time_ms, ending.time_ms
    if begin_ms is not None and end_ms is not None and begin_ms > end_ms:
        raise ConfigError(f"option startingTimestamp={begin_ms} lies behind endingTimestamp={end_ms}")
    return BatchOptions(read, ending)


def parse_stream_options(given: Mapping[str, str]) -> StreamOptions:
    """Parse the options of a stream. Raises ConfigError."""
    values = OptionValues(given, STREAM, f"a stream of {NAME}")
    least, most = _maybe(values, "minOffsetsPerTrigger"), _maybe(values, "maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise ConfigError(f"option minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}")
    return StreamOptions(
        read=_read_options(values, starting_bound(values, "latest")),
        offsets_max=most,
        offsets_min=least,
        delay_max_s=values.number("maxTriggerDelayMs", 15 * 60_000) / 1_000,
        poll_s=values.number("offsetPollMs", 100, least=0) / 1_000,
        discovery_s=values.number("discoveryMs", 10_000, least=0) / 1_000,
    )


def source_columns(given: Mapping[str, str]) -> dict[str, DataType]:
    """Return the columns of a source with these options; the same for batch and stream."""
    values = OptionValues(given, tuple(dict.fromkeys((*BATCH, *STREAM))), NAME)
    record = RAW if values.truth("rawRecord", default=False) else {}
    return MESSAGE | record | (DAMAGED if _on_damage(values) == "raw" else {})


def readable_columns(options: ReadOptions) -> dict[str, DataType]:
    """Return the columns that a schema may select."""
    return MESSAGE | RAW | (DAMAGED if options.on_damage == "raw" else {})


def client_config(values: OptionValues) -> ClientConfig:
    """Return the client configuration for the cluster."""
    return ClientConfig(
        namesrv=values.text("namesrv") or "",
        access=_credentials(values),
        tls=_tls(values),
        request_timeout_s=values.number("requestTimeoutMs", 10_000) / 1_000,
    )


def retry_seconds(values: OptionValues) -> float:
    return values.number("retryTimeoutMs", 60_000, least=0) / 1_000


def _read_options(values: OptionValues, starting: Bound) -> ReadOptions:
    client = client_config(values)
    _ = client.namesrv_addresses  # raises now if none is given
    return ReadOptions(
        client=client,
        retry_s=retry_seconds(values),
        wanted=parse_wanted(values),
        starting=starting,
        expression=_expression(values),
        group=values.text("groupId"),
        fail_on_data_loss=values.truth("failOnDataLoss", default=True),
        partitions_min=values.number("minPartitions", 1),
        partition_rows_max=_maybe(values, "maxRecordsPerPartition"),
        batch_rows=values.number("maxRowsPerBatch", 10_000),
        pulls_in_flight=values.number("pullsInFlight", 16),
        check_crc=values.truth("checkCrc", default=True),
        on_damage=_on_damage(values),
    )


def _on_damage(values: OptionValues) -> str:
    return values.choice("onDamage", "fail", "skip", "raw")


def _maybe(values: OptionValues, name: str) -> int | None:
    return None if values.text(name) is None else values.number(name, 1)


def _expression(values: OptionValues) -> Expression:
    tags, sql = values.text("tags"), values.text("sql")
    if tags is not None and sql is not None:
        raise ConfigError("options tags and sql exclude each other: give one of them")
    if sql is not None:
        return Sql(sql)
    subscription_data("any", tags or ALL, 0)  # raises if it contains no tag
    return tags or ALL


def _credentials(values: OptionValues) -> Credentials | None:
    access, secret = values.text("accessKey"), values.text("secretKey")
    if access is None and secret is None:
        return None
    if access is not None and access.startswith(FILE_PREFIX):
        return read_credentials(Path(access.removeprefix(FILE_PREFIX)))
    if access is None or secret is None:
        raise ConfigError("options accessKey and secretKey need each other")
    return Credentials(access, secret, values.text("securityToken"))


def _tls(values: OptionValues) -> TlsConfig | None:
    given = [name for name in CLIENT if name.startswith("tls") and name != "tls" and values.text(name) is not None]
    if not values.truth("tls", default=False):
        if given:
            raise ConfigError(f"option {given[0]} is given, but tls=true is not")
        return None
    trusted = values.text("tlsTrustCertPath")
    return TlsConfig(
        client_enable=True,
        client_auth_server=trusted is not None,
        client_trust_cert_path=trusted,
        client_cert_path=values.text("tlsCertPath"),
        client_key_path=values.text("tlsKeyPath"),
        client_key_password=values.text("tlsKeyPassword"),
    )
