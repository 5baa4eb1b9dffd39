"""Queues of a topic on all brokers, as the name servers know them; cached for some seconds.

Agrees with Java's TopicRouteInfoManager (5.3.3), which asks every 30 s.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from hanabi.broker.settings import Settings
from hanabi.broker.tables.topics import PERM_READ, Topics
from hanabi.clock import monotonic_ms
from hanabi.errors import MQError
from hanabi.message import MessageQueue
from hanabi.remoting.transport.connector import Connector
from hanabi.wire.bodies.route import TopicRoute
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import decode_body
from hanabi.wire.headers.namesrv import GetRouteHeader

KEPT_MS: Final = 5_000
_TOPICS_MAX: Final = 10_000
_TIMEOUT_SECONDS: Final = 3.0

logger = logging.getLogger(__name__)

Queues = list[MessageQueue]


class TopicRoutes:
    """Readable queues by topic. Requests for one topic at the same time share one question."""

    def __init__(
        self, settings: Settings, topics: Topics, connector: Connector, now_ms: Callable[[], int] = monotonic_ms
    ) -> None:
        self._settings, self._topics, self._connector, self._now_ms = settings, topics, connector, now_ms
        self._known: dict[str, tuple[int, Queues | None]] = {}  # until when, and the queues
        self._asked: dict[str, asyncio.Task[Queues | None]] = {}

    async def queues(self, topic: str) -> Queues | None:
        """Return the readable queues of *topic*; None if no name server knows it."""
        until_ms, queues = self._known.get(topic, (0, None))
        if self._now_ms() < until_ms:
            return queues
        task = self._asked.get(topic)
        if task is None:
            task = self._asked[topic] = asyncio.create_task(self._ask(topic))
            task.add_done_callback(lambda _: self._asked.pop(topic, None))
        return await asyncio.shield(task)

    async def _ask(self, topic: str) -> Queues | None:
        queues = self._own(topic)
        for address in self._settings.broker.namesrv_addresses:
            try:
                reply = await self._connector.request(
                    address,
                    RequestCode.GET_ROUTEINFO_BY_TOPIC,
                    GetRouteHeader(topic=topic),
                    timeout=_TIMEOUT_SECONDS,
                )
            except MQError as error:
                logger.warning("name server %s does not tell the route of %s: %s", address, topic, error)
                continue
            if reply.code == ResponseCode.SUCCESS:
                queues = readable_queues(topic, decode_body(reply.body, TopicRoute))
                break
        if len(self._known) >= _TOPICS_MAX:
            self._known.clear()
        self._known[topic] = self._now_ms() + KEPT_MS, queues
        return queues

    def _own(self, topic: str) -> Queues | None:
        """Return this broker's queues: for a broker without name servers, or before they know a new topic."""
        config = self._topics.find(topic)
        if config is None or not config.perm & PERM_READ:
            return None
        name = self._settings.broker.broker_name
        return [MessageQueue(topic, name, queue_id) for queue_id in range(config.read_queue_nums)]


def readable_queues(topic: str, route: TopicRoute) -> Queues:
    """Return the queues of *route* that consumers may read."""
    return [
        MessageQueue(topic, data.broker_name, queue_id)
        for data in route.queue_datas
        if data.perm & PERM_READ
        for queue_id in range(data.read_queue_nums)
    ]
