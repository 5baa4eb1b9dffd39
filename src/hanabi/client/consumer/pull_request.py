"""One pull: request the messages of a queue from an offset on from the right broker, and decode the response.

`ReadTargets` chooses the broker: a broker may suggest its slave for the next pull. Brokers filter tags by hash code,
so the result is filtered again by text. Loops, waits and retries are up to the caller. Large compressed responses are
decompressed in a thread (`unpacking`).

Agrees with Java's PullAPIWrapper and PullResultExt, except that an undecodable message stops the queue with an explicit
error, where Java would skip it and all behind it.
"""

from enum import Enum
from functools import partial
from typing import Final

import msgspec

from hanabi.client.cluster.api import PullReply
from hanabi.client.cluster.core import Core
from hanabi.client.cluster.queue_access import COMMIT_OFFSET, LITE_PULL, SUBSCRIPTION, QueueAccess, pull_header
from hanabi.client.cluster.read_targets import ReadTargets
from hanabi.client.cluster.routes import MASTER_ID
from hanabi.client.consumer.unpacking import takes_long
from hanabi.client.in_thread import in_thread
from hanabi.client.namespace import unwrap
from hanabi.errors import BrokerError, ConnectError, RemoteProtocolError
from hanabi.message import MessageQueue, StoredMessage
from hanabi.wire.bodies.heartbeat import SubscriptionData
from hanabi.wire.codes import ResponseCode
from hanabi.wire.message import property_names as names
from hanabi.wire.message.inner_batch import unwrapped
from hanabi.wire.message.stored import to_messages
from hanabi.wire.system_names import RETRY_PREFIX

COUNT: Final = 32
HOLD_S: Final = 15.0
ANSWER_S: Final = 15.0  # response timeout beyond the broker's hold time


class PullStatus(Enum):
    """Outcome of a pull."""

    FOUND = "FOUND"
    NO_NEW_MESSAGE = "NO_NEW_MSG"  # end of the queue
    NO_MATCHED_MESSAGE = "NO_MATCHED_MSG"  # messages exist, but none matches the subscription
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"  # no message at this offset: deleted, or not yet reached

    def __str__(self) -> str:
        return self.name


_STATUS: Final = {
    int(ResponseCode.SUCCESS): PullStatus.FOUND,
    int(ResponseCode.PULL_NOT_FOUND): PullStatus.NO_NEW_MESSAGE,
    int(ResponseCode.PULL_RETRY_IMMEDIATELY): PullStatus.NO_MATCHED_MESSAGE,
    int(ResponseCode.PULL_OFFSET_MOVED): PullStatus.OFFSET_ILLEGAL,
}


class PullResult(msgspec.Struct, frozen=True, gc=False):
    """Messages of a pull, and the offset of the next one: always `next_offset`."""

    status: PullStatus
    messages: list[StoredMessage]
    next_offset: int
    min_offset: int  # first stored offset of the queue
    max_offset: int  # offset of the queue's next message
    suggested_broker_id: int = MASTER_ID

    def stands_still(self, offset: int) -> bool:
        """Return True if a slave without a message at *offset* answered: it has not got it yet, or never will. Unlike a
        master it does not say where to continue.
        """
        return self.status is PullStatus.NO_MATCHED_MESSAGE and self.next_offset <= offset


def wanted(messages: list[StoredMessage], subscription: SubscriptionData) -> list[StoredMessage]:
    """Return those of *messages* that carry a subscribed tag; a broker compares only hash codes."""
    tags = subscription.tags_set
    if not tags or subscription.class_filter_mode:
        return messages
    if len(tags) == 1:
        (tag,) = tags
        return [message for message in messages if message.tags == tag]
    allowed = frozenset(tags)
    return [message for message in messages if message.tags in allowed]


def restored(message: StoredMessage, namespace: str) -> StoredMessage:
    """Return *message* with its producer's topic name: without retry topic and namespace."""
    topic = message.topic
    if topic.startswith(RETRY_PREFIX):
        topic = message.properties.get(names.RETRY_TOPIC, topic)
    if namespace:
        topic = unwrap(namespace, topic)
    return message if topic == message.topic else msgspec.structs.replace(message, topic=topic)


def decode_pulled(
    body: bytes, queue: MessageQueue, next_offset: int, offset_delta: int = 0, offset: int = 0
) -> tuple[list[StoredMessage], int]:
    """Decode *body*, pulled at *offset*; return its messages and the next offset. If one is unreadable, return those
    before it, and its offset; if it is the first, raise. *offset_delta* is 5.x's: a queue that moved between brokers
    continues the numbering of the previous broker.
    """
    messages, error = to_messages(body, queue.broker_name, offset_delta)
    messages, broken = unwrapped(messages, offset)
    error = broken or error
    if error is None:
        return messages, next_offset
    if messages:
        return messages, messages[-1].queue_offset + 1
    raise RemoteProtocolError(
        f"topic {queue.topic}, queue {queue.queue_id} of {queue.broker_name}: the first of the messages before offset"
        f" {next_offset} cannot be read, so none behind it is consumed: {error}"
    ) from error


class Pulling:
    """Pulls of one consumer group. *lite* says what kind of consumer it is.

    With *tells_subscription* every request carries the subscription; without, the broker knows it from the heartbeat.
    """

    def __init__(self, core: Core, group: str, *, lite: bool = False, tells_subscription: bool = False) -> None:
        self._core, self._group, self._queues = core, group, QueueAccess(core)
        self._flag = (SUBSCRIPTION if tells_subscription else 0) | (LITE_PULL if lite else 0)
        self._targets = ReadTargets(core.api.silent)

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        subscription: SubscriptionData,
        *,
        count: int = COUNT,
        commit_offset: int | None = None,
        hold_s: float = HOLD_S,
        timeout: float | None = None,  # noqa: ASYNC109 - it is the request's own
    ) -> PullResult:
        """Pull messages of *queue* from *offset* on, at most *count*; topics are named as on the wire, see `restored`.

        Without messages the broker holds the request for up to *hold_s* seconds. *commit_offset* is committed along
        with the request. *timeout* defaults to 15 s beyond the hold time.
        """
        route = self._core.routes.known(queue.topic) or await self._queues.route(queue)
        address = self._targets.address(route, queue)
        if address is None:
            route = await self._queues.route(queue)
            address = self._targets.address(route, queue)
        if address is None:
            raise ConnectError(f"topic {queue.topic}: the name servers know no address of broker {queue.broker_name}")
        header = pull_header(
            self._group,
            queue,
            offset,
            count,
            subscription,
            flag=self._flag,
            commit_offset=commit_offset,
            hold_s=hold_s,
        )
        if header.sys_flag & COMMIT_OFFSET and address != route.master_of(queue.broker_name):
            header = msgspec.structs.replace(header, sys_flag=header.sys_flag & ~COMMIT_OFFSET)
        try:
            seconds = hold_s + ANSWER_S if timeout is None else timeout
            reply = await self._core.api.pull_message(address, header, seconds)
        except BrokerError:
            self._targets.forget(queue)  # a slave that refuses is not asked again
            raise
        self._targets.answered(queue, reply.header.suggest_which_broker_id)
        result = partial(_result, queue, offset, subscription, reply)
        return await in_thread(result) if takes_long(reply.body) else result()

    def forget(self, queue: MessageQueue) -> None:
        """Drop the state of a queue that another member owns now."""
        self._targets.forget(queue)


def _result(queue: MessageQueue, offset: int, subscription: SubscriptionData, reply: PullReply) -> PullResult:
    header = reply.header
    status, next_offset = _STATUS[reply.code], header.next_begin_offset
    messages: list[StoredMessage] = []
    if status is PullStatus.FOUND:
        messages, next_offset = decode_pulled(reply.body, queue, next_offset, header.offset_delta or 0, offset)
        messages = wanted(messages, subscription)
    return PullResult(
        status, messages, next_offset, header.min_offset, header.max_offset, header.suggest_which_broker_id
    )
