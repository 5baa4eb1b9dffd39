"""The options of `df.write.format("rocketmq")` and `df.writeStream.format("rocketmq")`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hanabi.client.config import ClientConfig
from hanabi.client.producer.config import ProducerConfig
from hanabi.client.validation import check_group, check_topic
from hanabi.errors import ConfigError, InvalidMessage
from hanabi.spark.broker.options import CLIENT, NAME, client_config, retry_seconds
from hanabi.spark.shared.option_values import OptionValues

KNOWN: Final = (
    *CLIENT,
    "topic",  # default for rows without one
    "producerGroup",
    "sendTimeoutMs",  # across all attempts of a request
    "retries",
    "maxMessagesPerBatch",
    "batchesInFlight",
    "checkpointLocation",  # Spark's own, passed to sinks too
    "path",  # likewise: the argument of start(...) and save(...)
    "queryName",  # likewise: the name of a stream
)


@dataclass(frozen=True)
class SinkOptions:
    """Destination of the sink, and how it sends."""

    client: ClientConfig
    producer: ProducerConfig
    group: str
    topic: str | None
    batch_messages: int
    batches_in_flight: int
    retry_s: float  # how long an unreachable broker is retried
    checkpoint: str | None  # checkpoint location of a stream


def parse_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Parse the options of the sink. Raises ConfigError."""
    values = OptionValues(given, KNOWN, f"the sink {NAME}")
    client, topic = client_config(values), values.text("topic")
    _ = client.namesrv_addresses
    if topic is not None:
        try:
            check_topic(topic)
        except InvalidMessage as error:
            raise ConfigError(f"option {error}") from error
    group = values.text("producerGroup") or "spark-sink"
    check_group(group)
    return SinkOptions(
        client=client,
        producer=ProducerConfig(
            send_timeout_s=values.number("sendTimeoutMs", 30_000) / 1_000,
            attempt_timeout_s=values.number("requestTimeoutMs", 10_000) / 1_000,
            retries=values.number("retries", 5, least=0),
        ),
        group=group,
        topic=topic,
        batch_messages=values.number("maxMessagesPerBatch", 128),
        batches_in_flight=values.number("batchesInFlight", 8),
        retry_s=retry_seconds(values),
        checkpoint=values.text("checkpointLocation"),
    )
