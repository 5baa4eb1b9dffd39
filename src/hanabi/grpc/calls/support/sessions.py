"""Sessions: clients with a Telemetry stream, as members of their groups, and requests of brokers to them.

A producer is a member of one group for each of its topics, named as the topic: so the check of a transaction finds any
producer of the topic. A session ends with its stream, or when the client says that it stops.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from hanabi.errors import ConnectionLostError, MQError, RequestTimeoutError, TransportError
from hanabi.grpc.backend.backend import Backend
from hanabi.grpc.backend.peer import Peer
from hanabi.wire.bodies.heartbeat import (
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    ProducerData,
    SubscriptionData,
)
from hanabi.wire.command import Command
from hanabi.wire.fastjson import encode_body
from hanabi.wire.header import Header

SESSIONS_MAX: Final = 100_000
TOPICS_MAX: Final = 1_000  # of one producer

logger = logging.getLogger(__name__)


class Line(Protocol):
    """The Telemetry stream of a session."""

    def notify(self, code: int, header: Header | Mapping[str, str] | None, body: bytes) -> None:
        """Send a command to the client; raise TransportError if it cannot be sent."""

    def ask(self, code: int, header: Header | Mapping[str, str] | None, body: bytes) -> "asyncio.Future[Command]":
        """Send a command to the client; the future is its answer."""

    def unsent_bytes(self) -> int:
        """Return the bytes that wait for the client to read."""


class Session(Peer):
    """One client. The broker's tables have it in the place of a connection."""

    def __init__(self, client_id: str, peer: str, is_stalled: Callable[[], bool], line: Line) -> None:
        super().__init__(peer, is_stalled)
        self.client_id, self.line = client_id, line
        self.group: str | None = None  # of a consumer
        self.subscriptions: tuple[SubscriptionData, ...] = ()
        self.topics: dict[str, None] = {}  # of a producer
        self.is_told = False  # brokers know it

    @property
    def unsent_bytes(self) -> int:
        """The bytes that wait for the client to read."""
        return self.line.unsent_bytes()

    def send_oneway(
        self,
        code: int,
        header: Header | Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        at_once: bool = False,
    ) -> None:
        """Send the client a command without an answer; those that have no form in Telemetry are dropped."""
        if self.closed:
            raise ConnectionLostError(f"{self.peer}: the client has stopped")
        self.line.notify(code, header, body)

    async def request(
        self,
        code: int,
        header: Header | Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout: float,  # noqa: ASYNC109 - as a remoting connection has it
    ) -> Command:
        """Send the client a command and return its answer."""
        if self.closed:
            raise ConnectionLostError(f"{self.peer}: the client has stopped")
        try:
            async with asyncio.timeout(timeout):
                return await self.line.ask(code, header, body)
        except TimeoutError as error:
            raise RequestTimeoutError(f"{self.client_id}: no answer within {timeout:g} s") from error

    def heartbeat(self) -> bytes:
        """Return the body of its heartbeat."""
        consumers = []
        if self.group is not None:
            consumers.append(
                ConsumerData(
                    consume_type=ConsumeType.CONSUME_PASSIVELY,
                    group_name=self.group,
                    message_model=MessageModel.CLUSTERING,
                    subscription_data_set=list(self.subscriptions),
                )
            )
        producers = [ProducerData(group_name=topic) for topic in self.topics]
        return encode_body(
            HeartbeatData(client_id=self.client_id, consumer_data_set=consumers, producer_data_set=producers)
        )


class Sessions:
    """All sessions, by client id."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._by_id: dict[str, Session] = {}
        self.on_left: list[Callable[[str], None]] = []  # called with the id of a client that left

    def find(self, client_id: str) -> Session | None:
        """Return the session of a client."""
        return self._by_id.get(client_id)

    def __len__(self) -> int:
        return len(self._by_id)

    def open(self, client_id: str, peer: str, is_stalled: Callable[[], bool], line: Line) -> Session:
        """Return a new session; it takes the place of an older one of the same client, whose stream is lost."""
        if len(self._by_id) >= SESSIONS_MAX:
            raise MQError(f"there are {SESSIONS_MAX} clients already")
        session = Session(client_id, peer, is_stalled, line)
        older = self._by_id.get(client_id)
        self._by_id[client_id] = session
        if older is not None:
            self._leave(older)
        return session

    async def produces(self, client_id: str, topic: str) -> None:
        """Enter a client into the group of the producers of *topic*."""
        session = self._by_id.get(client_id)
        if session is not None and topic not in session.topics and len(session.topics) < TOPICS_MAX:
            session.topics[topic] = None
            await self.tell(session)

    async def tell(self, session: Session) -> None:
        """Tell the brokers of a session: that it is there, and its groups."""
        if not session.closed and (session.group is not None or session.topics):
            session.is_told = True
            try:
                await self._backend.join(session, session.heartbeat())
            except TransportError as error:
                logger.warning("%s could not be entered into its groups: %s", session.client_id, error)

    def close(self, session: Session) -> None:
        """End a session."""
        if self._by_id.get(session.client_id) is session:
            del self._by_id[session.client_id]
            self._leave(session)
            for left in self.on_left:
                left(session.client_id)

    def _leave(self, session: Session) -> None:
        session.closed = True
        if session.is_told:
            self._backend.leave(session, consumer_group=session.group, producer_groups=tuple(session.topics))
