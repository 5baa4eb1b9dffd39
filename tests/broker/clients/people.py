"""Clients that never connected, for tables that only need to tell them apart, and what they say."""

from collections.abc import Iterable, Mapping

from hanabi.broker.clients.client import Client
from hanabi.broker.clients.consumer_group import ConsumerGroup
from hanabi.broker.clients.consumers import Consumers
from hanabi.broker.clients.limits import REMEMBERED_BYTES_MAX
from hanabi.errors import ConnectionLostError
from hanabi.remoting.config import RemotingConfig
from hanabi.remoting.connection.endpoint import Endpoint
from hanabi.remoting.connection.protocol import Connection
from hanabi.testing.clock import ManualClock
from hanabi.wire.bodies.heartbeat import ConsumerData, ConsumeType, MessageModel, SubscriptionData
from hanabi.wire.header import Header

ENDPOINT = Endpoint({}, RemotingConfig())


class LostConnection(Connection):
    """A connection that ended: its client is known, and nothing can be sent to it."""

    def send_oneway(
        self, code: int, header: Header | Mapping[str, str] | None = None, body: bytes = b"", *, at_once: bool = False
    ) -> None:
        raise ConnectionLostError(f"{self.peer} is gone")


def a_client(client_id: str, *, version: int = 409, language: str = "JAVA") -> Client:
    """Create one on a connection of its own, by which nothing can be sent."""
    connection = LostConnection(ENDPOINT, f"192.0.2.1:{abs(hash(client_id)) % 60_000}")
    connection.closed = True
    return Client(client_id, connection, language, version)


def subscribed(topic: str, expression: str = "*", *, kind: str = "TAG", version: int = 1) -> SubscriptionData:
    return SubscriptionData(topic=topic, sub_string=expression, expression_type=kind, sub_version=version)


def a_consumer(
    group: str, *subscriptions: SubscriptionData, model: MessageModel = MessageModel.CLUSTERING
) -> ConsumerData:
    return ConsumerData(
        group_name=group,
        consume_type=ConsumeType.CONSUME_PASSIVELY,
        message_model=model,
        subscription_data_set=list(subscriptions),
    )


class Recorder:
    """Stands where the notices, the filters and the locks are, and writes down what it hears."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.registered: list[tuple[str, list[str]]] = []
        self.unregistered: list[str] = []
        self.left: list[tuple[str, str, bool]] = []

    def changed(self, group: ConsumerGroup, by: Connection | None = None) -> None:
        self.told.append(group.name)

    def register(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        self.registered.append((group, [subscription.topic for subscription in subscriptions]))

    def unregister(self, group: str) -> None:
        self.unregistered.append(group)

    def on_left(self, group: str, client_id: str, said_so: bool) -> None:
        self.left.append((group, client_id, said_so))


class Table:
    """A table of consumers, its clock, and what it told others."""

    def __init__(self, remembered_bytes_max: int = REMEMBERED_BYTES_MAX) -> None:
        self.clock = ManualClock()
        self.heard = Recorder()
        self.consumers = Consumers(
            self.heard,
            self.heard,
            self.clock,
            on_left=self.heard.on_left,
            remembered_bytes_max=remembered_bytes_max,
        )

    def group(self, name: str = "G") -> ConsumerGroup:
        group = self.consumers.find_group(name)
        assert group is not None
        return group
