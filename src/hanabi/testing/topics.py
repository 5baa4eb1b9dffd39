"""What a tool sends to make a topic as one usually wants it: written out, it is six fields of which two matter."""

from hanabi.wire.headers.topic import CreateTopicHeader
from hanabi.wire.system_names import DEFAULT_TOPIC

READ_WRITE = 6


def plain_topic(topic: str, queues: int, *, attributes: str | None = None) -> CreateTopicHeader:
    """A topic that is read and written, with so many queues for both. *attributes* are 5.x's."""
    return CreateTopicHeader(
        topic=topic,
        default_topic=DEFAULT_TOPIC,
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=READ_WRITE,
        topic_filter_type="SINGLE_TAG",
        attributes=attributes,
    )
