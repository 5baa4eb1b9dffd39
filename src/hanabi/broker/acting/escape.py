"""Escape: messages that become due on an acting slave are sent to a master of another name.

A slave stores nothing of its own, so its log stays a copy of its master's. A message that cannot be sent now is not
given up: its queue waits, it is retried with a growing pause, and counters and one log line an outage report it. When
the master is back it delivers what is left. Routes are kept for 30 s, and asked for again after a failure.

Delay levels, timers and half messages use `send`. Messages of POP consumers that are due again belong here, too.
Agrees with EscapeBridge (5.3.3), which skips a half message after ten failures.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

from hanabi.broker.acting.escape_form import Target, producer_group, targets, to_escape
from hanabi.broker.registration import Identity
from hanabi.broker.settings import Settings
from hanabi.errors import BrokerError, MQError
from hanabi.remoting.transport.connector import Connector
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import PutResult, PutStatus
from hanabi.wire.bodies.route import TopicRoute
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import decode_body
from hanabi.wire.headers.namesrv import GetRouteHeader
from hanabi.wire.headers.send import SendMessageV2Header
from hanabi.wire.system_names import DEFAULT_TOPIC

logger = logging.getLogger(__name__)

SEND_SECONDS: Final = 3.0
ROUTE_SECONDS: Final = 30.0  # for which a route is kept
ROUTES_MAX: Final = 10_000
_STORED: Final = (
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
)
_SENT: Final = PutResult(PutStatus.PUT_OK)


class Escape:
    """Way out of one acting slave. `escaped` and `failures` count messages and failed attempts."""

    def __init__(
        self, identity: Identity, settings: Settings, connector: Connector, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._identity, self._settings, self._connector, self._now = identity, settings, connector, now
        self._group = f"InnerProducerGroup_{identity.broker_name}_{identity.broker_id}"
        self._routes: dict[str, tuple[float, list[Target]]] = {}
        self._turn = 0
        self.escaped = 0
        self.failures = 0

    async def send(self, message: PendingMessage) -> PutResult:
        """Send *message*, which this broker would store, to another master. The result is PUT_OK if it is stored there,
        else the reason for waiting."""
        if not self._settings.broker.remote_escape_enabled:
            return self._failed("enableRemoteEscape is false: it waits for its master")
        leaving = to_escape(message)
        try:
            target = await self._target(leaving.topic)
            await self._send_to(target, leaving)
        except MQError as error:
            self._routes.pop(leaving.topic, None)
            return self._failed(str(error))
        self.escaped += 1
        return _SENT

    def _failed(self, reason: str) -> PutResult:
        self.failures += 1
        return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason=reason)

    async def _target(self, topic: str) -> Target:
        """Return the next queue in turn. Raise BrokerError if no other master takes the topic."""
        until, found = self._routes.get(topic, (0.0, []))
        if self._now() >= until:
            found = targets(await self._route(topic), self._identity.broker_name)
            if len(self._routes) >= ROUTES_MAX:
                self._routes.clear()
            self._routes[topic] = self._now() + ROUTE_SECONDS, found
        if not found:
            raise BrokerError(f"no other master has topic {topic}: create it there, or wait for the master")
        self._turn += 1
        return found[self._turn % len(found)]

    async def _route(self, topic: str) -> TopicRoute:
        reason = "there are no name servers"
        for server in self._settings.broker.namesrv_addresses:
            try:
                reply = await self._connector.request(
                    server, RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteHeader(topic=topic), timeout=SEND_SECONDS
                )
            except MQError as error:
                reason = str(error)
                continue
            if reply.code == ResponseCode.SUCCESS:
                return decode_body(bytes(reply.body), TopicRoute)
            reason = reply.remark or f"code {reply.code}"
        raise BrokerError(f"no route of topic {topic}: {reason}")

    async def _send_to(self, target: Target, message: PendingMessage) -> None:
        header = SendMessageV2Header(
            producer_group=producer_group(message, self._group),
            topic=message.topic,
            default_topic=DEFAULT_TOPIC,
            default_topic_queue_nums=4,
            queue_id=target.queue_id,
            sys_flag=message.sys_flag,
            born_timestamp=message.born_timestamp_ms,
            flag=message.flag,
            properties=message.properties.decode(),
            reconsume_times=message.reconsume_times,
        )
        reply = await self._connector.request(
            target.address, RequestCode.SEND_MESSAGE_V2, header, bytes(message.body), timeout=SEND_SECONDS
        )
        if reply.code not in _STORED:
            raise BrokerError.from_reply(reply.code, reply.remark, asked=f"{target.broker_name} at {target.address}")
