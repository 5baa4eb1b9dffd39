"""Producers and consumers that share one core, and the requests that they answer.

Interfaces between `core` and the public classes. Names of topics and groups are those on the wire, with their
namespace. Agrees with Java's MQProducerInner and MQConsumerInner.
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
    """Requests of a broker to a producer."""

    async def check_transaction(
        self, header: CheckTransactionStateHeader, message: StoredMessage, address: str
    ) -> bool:
        """Look up the transaction of this half message, and send its state to the broker at *address*. False: not
        mine.
        """
        ...

    def reply_arrived(self, header: ReplyMessageHeader, body: bytes) -> bool:
        """Accept the reply to a request message; False if it is not mine (see CORRELATION_ID in its properties)."""
        ...


class ConsumerMember(Protocol):
    """Requests of a broker, and of the core's timers, to a consumer."""

    def heartbeat_data(self) -> ConsumerData:
        """Return this consumer's current part of the heartbeat."""
        ...

    def rebalance_soon(self) -> None:
        """Request a rebalance: members or queues changed, or the interval expired. Returns at once."""
        ...

    async def persist_offsets(self) -> None:
        """Save this consumer's offsets."""
        ...

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Set these queues to these offsets, for an operator."""
        ...

    def consumer_status(self, topic: str) -> Mapping[MessageQueue, int]:
        """Return the offsets in memory for a topic."""
        ...

    async def running_info(self) -> ConsumerRunningInfo:
        """Describe this consumer's state. The core adds name servers, version and the stacks of threads."""
        ...

    async def consume_directly(self, message: StoredMessage) -> ConsumeMessageDirectlyResult:
        """Pass an operator's message straight to the listener; its `broker_name` is filled in."""
        ...


class Members:
    """Producers and consumers of one client. A group may have any number of producers here, but one consumer: consumers
    share queues by client id, and two with the same id would both take the same ones.
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
        """Remove a producer; return True if it was the last of its group here."""
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
        """Return the heartbeat of all members."""
        return HeartbeatData(
            client_id=self.client_id,
            consumer_data_set=[consumer.heartbeat_data() for consumer in self.consumers.values()],
            producer_data_set=[ProducerData(group_name=group) for group in self._producers],
        )
