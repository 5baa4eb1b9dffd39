"""Settings of a producer: one frozen value, checked once. Defaults are those of Java's DefaultMQProducer.

`config.ClientConfig` holds the settings for reaching the cluster.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from hanabi.client.option_types import check_types
from hanabi.client.validation import BODY_BYTES_MAX, check_topic
from hanabi.errors import ConfigError, InvalidMessage
from hanabi.wire.message.compression import LEVEL_DEFAULT, CompressionType
from hanabi.wire.system_names import DEFAULT_TOPIC

_MiB: Final = 1024 * 1024
_AT_LEAST_ONE: Final = (
    "message_bytes_max",
    "batch_bytes_max",
    "default_topic_queues",
    "in_flight_max",
    "in_flight_bytes_max",
    "pipeline_depth",
)
_LEVELS: Final = {CompressionType.ZLIB: (0, 9), CompressionType.ZSTD: (1, 22)}  # LZ4 has none


class ProducerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one producer.

    `send_timeout_s` covers a whole send: waiting for room, finding the route, all attempts. `attempt_timeout_s` ends
    one attempt earlier, so that time is left for another broker. `retry_not_stored` retries at another broker if one
    stored the message less safely than configured. `compression` is "zlib", "lz4" or "zstd"; brokers and consumers
    before 5.0 read only zlib. Sends beyond `in_flight_max` and `in_flight_bytes_max` wait; `send_many` has at most
    `pipeline_depth` messages in flight.
    """

    send_timeout_s: float = 3.0
    attempt_timeout_s: float | None = None
    retries: int = 2
    retry_not_stored: bool = False
    latency_fault_tolerance: bool = False
    message_bytes_max: int = BODY_BYTES_MAX
    compress_over_bytes: int = 4096
    compression: str = "zlib"
    compression_level: int = LEVEL_DEFAULT
    batch_bytes_max: int = _MiB
    default_topic: str = DEFAULT_TOPIC
    default_topic_queues: int = 4
    in_flight_max: int = 10_000
    in_flight_bytes_max: int = 100 * _MiB
    pipeline_depth: int = 512
    trace: bool | str = False  # record every message in the default trace topic, or in the one named

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("send_timeout_s", "attempt_timeout_s"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"{name} must be more than 0, not {value!r}")
        for name in _AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)!r}")
        if self.retries < 0:
            raise ConfigError(f"retries must be 0 or more, not {self.retries!r}")
        if self.compression.upper() not in CompressionType.__members__:
            raise ConfigError(f'compression must be "zlib", "lz4" or "zstd", not {self.compression!r}')
        smallest, largest = _LEVELS.get(self.compression_type, (self.compression_level, self.compression_level))
        if not smallest <= self.compression_level <= largest:
            raise ConfigError(
                f"compression_level of {self.compression} must be between {smallest} and {largest},"
                f" not {self.compression_level!r}"
            )
        try:
            check_topic(self.default_topic)
        except InvalidMessage as error:
            raise ConfigError(f"default_topic: {error}") from error

    @property
    def compression_type(self) -> CompressionType:
        return CompressionType[self.compression.upper()]


def producer_config(
    settings: ProducerConfig | None, options: Mapping[str, Any]
) -> tuple[ProducerConfig, dict[str, Any]]:
    """Return *settings* updated with the producer's fields from *options*, and the remaining options."""
    own = {name: value for name, value in options.items() if name in ProducerConfig.__struct_fields__}
    others = {name: value for name, value in options.items() if name not in own}
    return (ProducerConfig(**own) if settings is None else msgspec.structs.replace(settings, **own)), others
