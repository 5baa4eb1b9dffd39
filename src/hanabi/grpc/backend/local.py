"""The broker of this process, called through the functions of its handlers: no frames, no sockets."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from hanabi.broker.settings import Settings
from hanabi.broker.tables.groups import Groups
from hanabi.broker.tables.topics import Topics
from hanabi.errors import BrokerError, RequestCodeNotSupported, TopicNotExist
from hanabi.grpc.backend.backend import BrokerQueues, TopicFacts
from hanabi.grpc.backend.group_facts import MESSAGE_TYPE, group_facts
from hanabi.grpc.backend.peer import Peer
from hanabi.grpc.rules.settings import GroupFacts
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.wire.codes import Language, RequestCode, request_name
from hanabi.wire.command import V5_0_0, Command
from hanabi.wire.header import Header, NoHeader
from hanabi.wire.headers.client import UnregisterClientHeader


class LocalBackend:
    """One broker. *handlers* are those without gates: calls are checked before."""

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        topics: Topics,
        groups: Groups,
        settings: Settings,
        now_ms: Callable[[], int],
    ) -> None:
        self._handlers, self._topics, self._groups, self._settings = handlers, topics, groups, settings
        self._now_ms = now_ms

    @property
    def broker_name(self) -> str:
        """The broker's name."""
        return self._settings.broker.broker_name

    def now_ms(self) -> int:
        """Return the broker's time."""
        return self._now_ms()

    def delay_ms_max(self) -> int:
        """Return the longest delay of a message."""
        return self._settings.broker.timer_max_delay_sec * 1000

    def topic(self, name: str) -> TopicFacts | None:
        """Return the facts about a topic of this broker."""
        config = self._topics.find(name)
        if config is None or not self._topics.may_send(name):
            return None
        perm = config.perm & self._settings.broker.permission
        queues = BrokerQueues(self.broker_name, config.read_queue_nums, config.write_queue_nums, perm)
        return TopicFacts((queues,), (config.attributes or {}).get(MESSAGE_TYPE))

    def group(self, name: str) -> GroupFacts | None:
        """Return the settings of a group, which is created if the broker does that."""
        config = self._groups.find(name)
        return group_facts(config) if config is not None else None

    def ask(
        self, broker_name: str, code: int, header: Header, body: bytes, peer: Peer, seconds: float = 3.0
    ) -> Reply | Awaitable[Reply]:
        """Call the handler of *code*. Its errors are raised."""
        if broker_name != self.broker_name:
            raise TopicNotExist(f"broker {broker_name[:80]} is not this one")
        request = Command(code=code, body=body, version=V5_0_0, language=Language.JAVA.name)
        handler = self._handlers.get(code)
        if handler is None:
            raise RequestCodeNotSupported(f"this broker has no {request_name(code)}")
        if handler.body_bytes_max is not None and len(body) > handler.body_bytes_max:
            raise BrokerError(f"a request of {len(body)} bytes, limit {handler.body_bytes_max}")
        return handler.handle(header, request, cast(Connection, peer))

    async def join(self, peer: Peer, heartbeat: bytes) -> Reply:
        """Enter a client into its groups."""
        answer = self.ask(self.broker_name, RequestCode.HEART_BEAT, NoHeader(), heartbeat, peer)
        return answer if isinstance(answer, Reply) else await answer

    def leave(self, peer: Peer, *, consumer_group: str | None, producer_groups: tuple[str, ...]) -> None:
        """Remove a client from its groups."""
        names: list[tuple[str | None, str | None]] = [(None, group) for group in producer_groups]
        if consumer_group is not None:
            names.append((consumer_group, None))
        for consumer, producer in names:
            header = UnregisterClientHeader(client_id="", consumer_group=consumer, producer_group=producer)
            answer = self.ask(self.broker_name, RequestCode.UNREGISTER_CLIENT, header, b"", peer)
            if not isinstance(answer, Reply):
                asyncio.ensure_future(answer).add_done_callback(_seen)


def _seen(done: "asyncio.Future[Reply]") -> None:
    """Take the result of a request that is not waited for; a failure means that the client was not a member."""
    if not done.cancelled():
        done.exception()
