"""5.x: POP consumption over remoting: queue assignments, request modes and batches of acknowledgements.

Agrees with Java's QueryAssignmentRequestBody, QueryAssignmentResponseBody, MessageQueueAssignment,
SetMessageRequestModeRequestBody, MessageRequestModeSerializeWrapper, BatchAckMessageRequestBody and BatchAck.
"""

import msgspec

from hanabi.message import MessageQueue
from hanabi.wire.body import Body, always_written, always_written_new
from hanabi.wire.header import Int32, Int64


class QueryAssignmentRequest(Body, frozen=True, kw_only=True):
    """A consumer's request for its queues of a topic."""

    client_id: str
    consumer_group: str
    message_model: str | None = None
    strategy_name: str | None = None
    topic: str


class MessageQueueAssignment(Body, frozen=True, kw_only=True):
    """A queue and how to get its messages: PULL or POP."""

    attachments: dict[str, str] | None = None
    message_queue: MessageQueue
    mode: str = always_written("PULL")


class QueryAssignmentReply(Body, frozen=True, kw_only=True):
    """The queues of the requesting consumer."""

    message_queue_assignments: list[MessageQueueAssignment] | None = None


class MessageRequestMode(Body, frozen=True, kw_only=True):
    """The mode, pull or POP, in which a group gets a topic's messages (Java's SetMessageRequestModeRequestBody)."""

    consumer_group: str | None = None
    mode: str = always_written("PULL")
    pop_share_queue_num: Int32 = always_written(0)
    topic: str | None = None


class MessageRequestModeTable(Body, frozen=True, kw_only=True):
    """All such settings of a broker: topic, then group."""

    message_request_mode_map: dict[str, dict[str, MessageRequestMode]] = always_written_new(dict)


class BatchAck(Body, frozen=True, kw_only=True, gc=False):
    """Acknowledgements of messages that one POP brought. Java keeps the names short."""

    offsets: bytes = always_written(b"", name="b")  # a bit for each message after start_offset, lowest bit first
    consumer_group: str = msgspec.field(name="c")
    invisible_time: Int64 = always_written(0, name="it")
    pop_time: Int64 = always_written(0, name="pt")
    queue_id: Int32 = always_written(0, name="q")
    retry: str | None = msgspec.field(default=None, name="r")
    revive_queue_id: Int32 = always_written(0, name="rq")
    start_offset: Int64 = always_written(0, name="so")
    topic: str = msgspec.field(name="t")


class BatchAckRequest(Body, frozen=True, kw_only=True):
    """Acknowledgements for one broker."""

    acks: list[BatchAck] = always_written_new(list)
    broker_name: str | None = None
