"""Topics with the settings that tests usually need: readable and writable, with the same number of queues for both."""

from typing import Final

from hanabi.broker.broker import Broker
from hanabi.wire.bodies.topics import TopicConfig
from hanabi.wire.headers.topic import CreateTopicHeader

READ_WRITE: Final = 6


def plain_topic(topic: str, queues: int, *, attributes: str | None = None) -> CreateTopicHeader:
    """Make the request header with which a tool creates a topic. *attributes* are 5.x's."""
    return CreateTopicHeader(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=READ_WRITE,
        topic_filter_type="SINGLE_TAG",
        attributes=attributes,
    )


async def create_topic(broker: Broker, topic: str, *, queues: int = 4, perm: int = READ_WRITE) -> None:
    """Create a topic on *broker*; its name servers know it when this returns."""
    await broker.tables.topics.update(
        TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues, perm=perm)
    )
    await broker.registration.settled()
