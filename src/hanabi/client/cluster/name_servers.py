"""Requests to the name servers: a random one first, and the next when it is down or slow.

All have nearly the same data: each gets it from the brokers, and they do not replicate. So one reachable server is
enough, but a topic that it does not know may exist. Agrees with NettyRemotingClient in its choice of a name server, but
does not wait for a silent one until the deadline.
"""

import asyncio
import logging
import random
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from hanabi.client.cluster.api import Api
from hanabi.errors import ConnectError, MQError, RequestCodeNotSupported, TopicNotExist, TransportError
from hanabi.wire.bodies.route import ClusterInfo, TopicRoute

SILENCE_SECONDS: Final = 1.0  # then the next server is queried too

logger = logging.getLogger(__name__)


class NameServers:
    """Name servers of one cluster. The one that answered last is queried first."""

    def __init__(
        self,
        addresses: Sequence[str],
        api: Api,
        *,
        rng: random.Random | None = None,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        self.addresses = tuple(addresses)
        self._api = api
        self._silence_seconds = silence_seconds
        self._order = list(addresses)
        (rng or random.Random()).shuffle(self._order)  # noqa: S311 - spreads load, guards nothing

    @property
    def first(self) -> str:
        """Return the name server that will be queried first."""
        return self._order[0]

    async def route_of(self, topic: str, seconds: float) -> TopicRoute:
        """Return the route of *topic*. Raise TopicNotExist if no server that answered has it; else the failure."""
        asked = _Round()
        waiting = list(self._order)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        try:
            while (waiting or asked.under_way) and (left := deadline - loop.time()) > 0:
                if waiting:
                    address = waiting.pop(0)
                    asked.begin(address, self._api.topic_route(address, topic, timeout=left))
                await asked.wait(min(left, self._silence_seconds) if waiting else left)
                if asked.answer is not None:
                    address, route = asked.answer
                    self._first_choice(address)
                    return route
        finally:
            await asked.end(seconds)
        for address, refusal in asked.refusals.items():
            if isinstance(refusal, TransportError):
                self._last_choice(address)
        raise _no_route(topic, self.addresses, asked.refusals)

    async def have_no_brokers(self, seconds: float) -> bool:
        """Return True if all of them report that no broker is registered; a silent one may know a broker."""
        patience = min(seconds, self._silence_seconds)
        asked = (self._api.cluster_info(address, timeout=patience) for address in self.addresses)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return all(isinstance(answer, ClusterInfo) and not answer.broker_addr_table for answer in answers)

    def _first_choice(self, address: str) -> None:
        if self._order[0] != address:
            self._order.remove(address)
            self._order.insert(0, address)

    def _last_choice(self, address: str) -> None:
        if len(self._order) > 1 and self._order[-1] != address:
            self._order.remove(address)
            self._order.append(address)
            logger.info("name server %s does not answer, querying %s first from now on", address, self._order[0])


class _Round:
    """One query to several name servers: responses so far, and pending ones."""

    def __init__(self) -> None:
        self.answer: tuple[str, TopicRoute] | None = None
        self.refusals: dict[str, MQError] = {}
        self.under_way: dict[asyncio.Task[TopicRoute], str] = {}

    def begin(self, address: str, question: Coroutine[Any, Any, TopicRoute]) -> None:
        self.under_way[asyncio.ensure_future(question)] = address

    async def wait(self, seconds: float) -> None:
        """Wait until a server has answered, or for the timeout."""
        done, _ = await asyncio.wait(self.under_way, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            address = self.under_way.pop(task)
            try:
                self.answer = address, task.result()
            except RequestCodeNotSupported:
                self.refusals[address] = RequestCodeNotSupported(f"{address} is not a name server (a broker, perhaps)")
            except MQError as error:
                self.refusals[address] = error

    async def end(self, seconds: float) -> None:
        """Cancel pending queries; their servers did not answer within *seconds*."""
        for task, address in self.under_way.items():
            task.cancel()
            self.refusals[address] = ConnectError(f"{address}: no answer within {seconds:.3g} s")
        if self.under_way:
            await asyncio.wait(self.under_way)


def _no_route(topic: str, addresses: Sequence[str], refusals: dict[str, MQError]) -> MQError:
    """Build one error from the failures of all servers."""
    unknown = [address for address, error in refusals.items() if isinstance(error, TopicNotExist)]
    failed = {address: error for address, error in refusals.items() if address not in unknown}
    reasons = "; ".join(str(error) for error in failed.values())
    if unknown:
        unreached = f" (not asked: {reasons})" if failed else ""
        return TopicNotExist(
            f"no broker serves topic {topic}, say the name servers {', '.join(unknown)}{unreached}. Is the name right,"
            " is a broker with this topic registered there? Make the topic, or let brokers make it on first use"
        )
    for error in failed.values():
        if not isinstance(error, TransportError):
            return error  # it was reached, and refused: access denied, for example
    return ConnectError(f"no name server of {', '.join(addresses)} returned a route of topic {topic}: {reasons}")
