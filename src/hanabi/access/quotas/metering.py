"""Quotas of the accounts of one broker, in front of its handlers.

An account beyond its quota is first slowed down: its request is answered, and the next one of that connection is read
only when the quota allows it, a second later at most. An account that owes more than a second is refused: a pull with
FLOW_CONTROL, after which clients ask again soon, any other request with SYSTEM_BUSY. A request over the number of
topics is refused with NO_PERMISSION: it would be refused again. Calls of gRPC are admitted by the same meters.

Without quotas nothing is counted.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from hanabi.access.demands import broker_demand
from hanabi.access.guard import Handle, Source, origin_of
from hanabi.access.names import Surroundings
from hanabi.access.quotas.created import CreatedTopics
from hanabi.access.quotas.meter import TOPICS, Excess, Meter, Metered
from hanabi.access.quotas.quota import EACH, LIMITS, Quota
from hanabi.errors import MQError, NoPermission, SystemBusy
from hanabi.remoting.connection.dispatch import Reply
from hanabi.wire.codes import RequestCode as Code
from hanabi.wire.codes import ResponseCode
from hanabi.wire.command import Command

if TYPE_CHECKING:
    from hanabi.remoting.connection.protocol import Connection

PATIENCE_SECONDS: Final = 1.0  # for what is owed; more is refused
TOLD_SECONDS: Final = 60.0  # between two lines about one account and limit
_METERS_MAX: Final = 20_000
_PULLS: Final = frozenset({Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE, Code.POP_MESSAGE})
_CREATING: Final = frozenset(
    {
        Code.SEND_MESSAGE,
        Code.SEND_MESSAGE_V2,
        Code.SEND_BATCH_MESSAGE,
        Code.UPDATE_AND_CREATE_TOPIC,
        Code.UPDATE_AND_CREATE_TOPIC_LIST,
    }
)

Told = Callable[[Any, Command, Source, str], None]  # header, request, origin, reason

logger = logging.getLogger(__name__)


class Metering:
    """The meters of all accounts that have a quota. *told* is called for a refusal, at most once a minute for one
    account and limit. *exempt*: accounts of the brokers themselves, which the quota of each account does not mean."""

    def __init__(
        self,
        around: Surroundings,
        created: CreatedTopics,
        told: Told,
        *,
        exempt: frozenset[str] = frozenset(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._around, self.created, self._told, self._exempt, self._clock = around, created, told, exempt, clock
        self._quotas: Mapping[str, Quota] = {}
        self.meters: dict[str, Meter] = {}
        self._told_at: dict[tuple[str, str], float] = {}
        self._creating: Counter[str] = Counter()  # topics in requests under way, by account
        self.generation = 0

    @property
    def is_on(self) -> bool:
        """Whether there are quotas at all."""
        return bool(self._quotas)

    def use(self, quotas: Mapping[str, Quota]) -> None:
        """Put *quotas* in force. Accounts keep what was counted."""
        if quotas == self._quotas:
            return
        self._quotas, former, self.meters = quotas, self.meters, {}
        for account, meter in former.items():
            if (renewed := self.of(account)) is not None:
                renewed.continue_from(meter)
        self.generation += 1

    def of(self, account: str) -> Meter | None:
        """Return the meter of *account*; None if it has no quota."""
        meter = self.meters.get(account)
        if meter is None:
            quota = self._quotas.get(account) or (None if account in self._exempt else self._quotas.get(EACH))
            if quota is None:
                return None
            if len(self.meters) >= _METERS_MAX:  # accounts that were deleted long ago
                self.meters.clear()
                self.generation += 1
            meter = self.meters[account] = Meter(account, quota, self._clock)
        return meter

    def handle(
        self, account: str, handle: Handle, header: Any, request: Command, connection: "Connection"
    ) -> Reply | Awaitable[Reply]:
        """Answer a request of *account* by *handle*, and charge the account for it, or refuse it."""
        meter = self.of(account)
        if meter is None:
            return handle(header, request, connection)
        excess = meter.excess(connection)
        if excess is not None and (reason := self._refusal(meter, excess, header, request, connection)) is not None:
            if request.code in _PULLS and excess.seconds is not None:
                return Reply(ResponseCode.FLOW_CONTROL, reason)
            raise SystemBusy(reason)
        meter.charge(request_bytes(request), 0)
        new_topics = self._new_topics(meter, header, request, connection)
        answer = handle(header, request, connection)
        if isinstance(answer, Reply):
            return self._answered(meter, new_topics, answer)
        if new_topics:
            return self._reserved(meter, new_topics, answer)
        if isinstance(answer, asyncio.Future):
            answer.add_done_callback(lambda done: self._settled(meter, new_topics, done))
            return cast(Awaitable[Reply], answer)
        return self._awaited(meter, new_topics, answer)

    def admit(self, account: str, named: Any, request: Command, size: int, connection: Metered) -> Meter | None:
        """Charge *account* for a request of *size* bytes that creates no topic; raise SystemBusy if it is refused.

        Return the meter, which the caller charges for the answer; None if the account has no quota. *named* are the
        topics and groups of the request, for the audit log.
        """
        meter = self.of(account)
        if meter is None:
            return None
        excess = meter.excess(connection)
        if excess is not None and (reason := self._refusal(meter, excess, named, request, connection)) is not None:
            raise SystemBusy(reason)
        meter.charge(size, 0)
        return meter

    def _refusal(self, meter: Meter, excess: Excess, header: Any, request: Command, connection: Metered) -> str | None:
        """Slow the connection down; return the reason to refuse the request, if that is not enough."""
        limit, seconds = excess
        if seconds is not None:
            connection.hold(min(seconds, PATIENCE_SECONDS))
            if seconds <= PATIENCE_SECONDS:
                meter.delayed[limit] += 1
                return None
        reason = _sentence(meter, limit)
        self._refuse(meter, limit, reason, header, request, connection)
        return reason

    def _new_topics(self, meter: Meter, header: Any, request: Command, connection: "Connection") -> list[str]:
        """Return the topics that the request may create; raise NoPermission if these are too many."""
        limit = meter.quota.topics
        if limit is None or request.code not in _CREATING:
            return []
        try:
            named = broker_demand(request.code).named(header, request.body, self._around).topics
        except MQError:
            return []  # its handler refuses it
        new = [topic for topic in named if not topic.startswith("%") and not self.created.exists(topic)]
        if new and self.created.count(meter.account) + self._creating[meter.account] + len(new) > limit:
            reason = _sentence(meter, TOPICS)
            self._refuse(meter, TOPICS, reason, header, request, connection)
            raise NoPermission(reason)
        return new

    def _refuse(
        self, meter: Meter, limit: str, reason: str, header: Any, request: Command, connection: Metered
    ) -> None:
        meter.refused[limit] += 1
        now, key = self._clock(), (meter.account, limit)
        if now - self._told_at.get(key, now - TOLD_SECONDS) < TOLD_SECONDS:
            return
        if len(self._told_at) >= _METERS_MAX:
            self._told_at.clear()
        self._told_at[key] = now
        source = origin_of(connection)
        logger.warning("%s: %s; further refusals are counted", source.host, reason)
        self._told(header, request, source, reason)

    def _answered(self, meter: Meter, new_topics: list[str], reply: Reply) -> Reply:
        if size := reply_bytes(reply):
            meter.charge_out(size)
        if new_topics:
            self.created.created(new_topics, meter.account)
        return reply

    def _reserved(self, meter: Meter, new_topics: list[str], answer: Awaitable[Reply]) -> Awaitable[Reply]:
        """Count topics from now on, until the answer shows which of them are there: a client may have sent many such
        requests at once."""
        account, future = meter.account, asyncio.ensure_future(answer)
        self._creating[account] += len(new_topics)

        def done(ended: "asyncio.Future[Reply]") -> None:
            self._creating[account] -= len(new_topics)
            if not self._creating[account]:
                del self._creating[account]
            self._settled(meter, new_topics, ended)

        future.add_done_callback(done)
        return future

    def _settled(self, meter: Meter, new_topics: list[str], done: "asyncio.Future[Reply]") -> None:
        if not done.cancelled() and done.exception() is None:
            self._answered(meter, new_topics, done.result())

    async def _awaited(self, meter: Meter, new_topics: list[str], answer: Awaitable[Reply]) -> Reply:
        return self._answered(meter, new_topics, await answer)


def request_bytes(request: Command) -> int:
    """Return what a request counts for: its header fields and its body."""
    return len(request.body) + sum(len(name) + len(value) for name, value in request.fields().items())


def reply_bytes(reply: Reply) -> int:
    """Return what an answer counts for: its body."""
    return sum(map(len, reply.body)) if isinstance(reply.body, list) else len(reply.body)


def _sentence(meter: Meter, limit: str) -> str:
    allowed = getattr(meter.quota, LIMITS[limit])
    return f"account {meter.account} is over its quota: {limit} = {allowed} (accountQuotas)"
