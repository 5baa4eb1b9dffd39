"""Who takes part in the cluster through one core: its producers and its consumers, and what is asked of them.

These are the seams between `core` and the classes that programs use. Names of topics and groups are those on the wire,
with their namespace. Agrees with Java's MQProducerInner and MQConsumerInner.
"""

from collections.abc import Mapping
from typing import Protocol

from hanabi.errors import ConfigError
from hanabi.message import MessageQueue, StoredMessage
from hanabi.wire.bodies.clients import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from hanabi.wire.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData
from hanabi.wire.headers.send import ReplyMessageHeader
from hanabi.wire.headers.transaction import CheckTransactionStateHeader


class ProducerMember(Protocol):
    """What a broker may want from a producer."""

    async def check_transaction(
        self, header: CheckTransactionStateHeader, message: StoredMessage, address: str
    ) -> bool:
        """How did the transaction of this half message end? Tell the broker at *address*. False: not mine to say."""
        ...

    def reply_arrived(self, header: ReplyMessageHeader, body: bytes) -> bool:
        """The answer to a request message is here; False if it is not mine (see CORRELATION_ID in its properties)."""
        ...


class ConsumerMember(Protocol):
    """What a broker, and the core's own clocks, may want from a consumer."""

    def heartbeat_data(self) -> ConsumerData:
        """What this consumer tells the brokers of itself, now."""
        ...

    def rebalance_soon(self) -> None:
        """Members came or went, queues changed, or it is time again: share the queues anew. Returns at once."""
        ...

    async def persist_offsets(self) -> None:
        """Save how far this consumer has come."""
        ...

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """An operator sets these queues to these offsets."""
        ...

    def consumer_status(self, topic: str) -> Mapping[MessageQueue, int]:
        """The offsets that this consumer holds in memory for a topic."""
        ...

    async def running_info(self) -> ConsumerRunningInfo:
        """What this consumer is doing. The core adds name servers, version and the stacks of threads."""
        ...

    async def consume_directly(self, message: StoredMessage) -> ConsumeMessageDirectlyResult:
        """An operator sends this message straight to the listener; its `broker_name` is filled in."""
        ...


class Members:
    """The producers and consumers of one client. A group has any number of its producers, but one of its consumers:
    consumers share queues by client id, and two with the same id would both take the same ones.
    """

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.consumers: dict[str, ConsumerMember] = {}
        self._producers: dict[str, list[ProducerMember]] = {}

    def __bool__(self) -> bool:
        return bool(self.consumers or self._producers)

    @property
    def has_producers(self) -> bool:
        return bool(self._producers)

    def producers_of(self, group: str) -> tuple[ProducerMember, ...]:
        return tuple(self._producers.get(group, ()))

    def all_producers(self) -> list[ProducerMember]:
        return [member for members in self._producers.values() for member in members]

    def add_producer(self, group: str, member: ProducerMember) -> None:
        self._producers.setdefault(group, []).append(member)

    def remove_producer(self, group: str, member: ProducerMember) -> bool:
        """Whether it was the last of its group here."""
        members = self._producers.get(group, [])
        if member not in members:
            return False
        members.remove(member)
        if members:
            return False
        del self._producers[group]
        return True

    def add_consumer(self, group: str, member: ConsumerMember) -> None:
        if group in self.consumers:
            raise ConfigError(
                f"client {self.client_id} has a consumer of group {group} already: give the second one a client_id or"
                " an instance of its own, or another group"
            )
        self.consumers[group] = member

    def remove_consumer(self, group: str) -> bool:
        return self.consumers.pop(group, None) is not None

    def heartbeat_data(self) -> HeartbeatData:
        """What the brokers hear of all of us."""
        return HeartbeatData(
            client_id=self.client_id,
            consumer_data_set=[consumer.heartbeat_data() for consumer in self.consumers.values()],
            producer_data_set=[ProducerData(group_name=group) for group in self._producers],
        )
