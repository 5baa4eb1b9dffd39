"""Queues of this member as a broker assigns them (QUERY_ASSIGNMENT of 5.x): to pull, or to pop.

The broker decides by the request mode of the group and topic (`hanabi group mode`). Agrees with Java's RebalanceImpl
with `clientRebalance=false`. Brokers of 4.9 do not know the request; then the members divide the queues themselves.
"""

import random
from typing import Final, NamedTuple

from hanabi.client.cluster.core import Core
from hanabi.client.consumer.group.allocate import Allocate, averagely, by_circle
from hanabi.errors import ConfigError, ConnectError, MQError, RequestCodeNotSupported
from hanabi.message import MessageQueue
from hanabi.wire.bodies.heartbeat import MessageModel
from hanabi.wire.bodies.pop import QueryAssignmentReply, QueryAssignmentRequest
from hanabi.wire.codes import RequestCode
from hanabi.wire.fastjson import decode_body, encode_body

POP: Final = "POP"
_STRATEGIES: Final[tuple[tuple[Allocate, str], ...]] = ((averagely, "AVG"), (by_circle, "AVG_BY_CIRCLE"))


class BrokersChoice(NamedTuple):
    """Queues of one topic to pull, and those to pop; a queue id of -1 is any queue of that broker."""

    pulls: set[MessageQueue]
    pops: set[MessageQueue]


class BrokerShare:
    """Requests of one member of one group."""

    def __init__(self, core: Core, group: str, allocate: Allocate) -> None:
        strategy = next((name for known, name in _STRATEGIES if known is allocate), None)
        if strategy is None:
            raise ConfigError('rebalance="broker" knows allocate=averagely and by_circle: brokers have no other')
        self._core, self._group, self._strategy = core, group, strategy

    async def ask(self, topic: str) -> BrokersChoice | None:
        """Return what a broker of *topic* assigns; None: it does not know this member, which keeps what it has. Raise
        RequestCodeNotSupported if the brokers assign nothing."""
        route = await self._core.routes.find(topic)
        failure: MQError | None = None
        for name in random.sample(sorted(route.brokers), len(route.brokers)):
            address = route.address_of(name)
            if address is None:
                continue
            try:
                self._core.api.silent.pass_over(address)
                found = await self._ask(address, topic)
                if found is None:  # a restarted broker has forgotten us
                    await self._core.heartbeat_to(address)
                    found = await self._ask(address, topic)
                return found
            except RequestCodeNotSupported:
                raise
            except MQError as error:
                failure = error
        raise failure or ConnectError(f"topic {topic} has no broker that could assign its queues")

    async def _ask(self, address: str, topic: str) -> BrokersChoice | None:
        request = QueryAssignmentRequest(
            client_id=self._core.client_id,
            consumer_group=self._group,
            message_model=MessageModel.CLUSTERING.value,
            strategy_name=self._strategy,
            topic=topic,
        )
        reply = await self._core.api.ask(
            address,
            RequestCode.QUERY_ASSIGNMENT,
            None,
            encode_body(request),
            timeout=self._core.config.request_timeout_s,
        )
        given = decode_body(reply.body, QueryAssignmentReply).message_queue_assignments
        if given is None:
            return None
        return BrokersChoice(
            {each.message_queue for each in given if each.mode != POP},
            {each.message_queue for each in given if each.mode == POP},
        )
