"""Requests about one queue, each sent to the broker that serves it. For consumers, tools and Spark.

Only the master knows the first and last offset of a queue; a slave may answer the rest. For a broker that is missing in
the route, the route is refreshed once. Names are those on the wire.

Agrees with Java's MQAdminImpl, findBrokerAddressInSubscribe and findBrokerAddressInPublish.
"""

from datetime import datetime
from typing import Final

from hanabi.client.cluster.api import PullReply
from hanabi.client.cluster.core import Core
from hanabi.client.cluster.routes import MASTER_ID, Route
from hanabi.errors import ConnectError
from hanabi.message import MessageQueue
from hanabi.wire.bodies.heartbeat import RULE, SQL92, SubscriptionData
from hanabi.wire.headers.pull import PullMessageHeader

LOWER: Final = "LOWER"  # the first of several messages stored at the same time

# Bits of Java's PullSysFlag: parts of a pull request that the broker evaluates.
COMMIT_OFFSET: Final = 1
SUSPEND: Final = 1 << 1
SUBSCRIPTION: Final = 1 << 2
LITE_PULL: Final = 1 << 4


def milliseconds(when: datetime | float) -> int:
    """Return *when* as brokers count it: milliseconds since 1970.

    A plain number is seconds, as `time.time()` gives them; a datetime without a time zone is local time.
    """
    return round((when.timestamp() if isinstance(when, datetime) else when) * 1_000)


def pull_header(
    group: str,
    queue: MessageQueue,
    offset: int,
    count: int,
    subscription: SubscriptionData,
    *,
    flag: int = SUBSCRIPTION,
    commit_offset: int | None = None,
    hold_s: float = 0.0,
) -> PullMessageHeader:
    """Return a pull request. *flag* adds to the bits that follow from the other arguments."""
    if commit_offset is not None:
        flag |= COMMIT_OFFSET
    if hold_s > 0:
        flag |= SUSPEND
    carries = flag & SUBSCRIPTION
    # As in Java: a request that carries its subscription has no version of it, unless brokers compile the expression.
    versioned = not carries or subscription.expression_type in (SQL92, RULE)
    return PullMessageHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=count,
        sys_flag=flag,
        commit_offset=commit_offset or 0,
        suspend_timeout_millis=round(hold_s * 1_000),
        sub_version=subscription.sub_version if versioned else 0,
        subscription=subscription.sub_string if carries else None,
        expression_type=subscription.expression_type,
        target_broker=queue.broker_name,
    )


class QueueAccess:
    """Requests of one client about queues. An error of the broker, or of the way to it, is raised."""

    def __init__(self, core: Core) -> None:
        self._core, self._api = core, core.api
        self._seconds = core.config.request_timeout_s

    # Addresses

    async def route(self, queue: MessageQueue) -> Route:
        """Return the route of the queue's topic, with its broker in it."""
        route = self._core.routes.known(queue.topic)
        if route is None or not route.brokers.get(queue.broker_name):
            route = await self._core.routes.find(queue.topic, fresh=True)
        if not route.brokers.get(queue.broker_name):
            raise ConnectError(
                f"topic {queue.topic}: the name servers ({', '.join(self._core.config.namesrv_addresses)}) know no"
                f" broker {queue.broker_name} that serves it, only {', '.join(route.brokers) or 'none at all'}"
            )
        return route

    async def reading_address(self, queue: MessageQueue, broker_id: int = MASTER_ID) -> str:
        """Return the address of the broker of this id, or of another one of the same name if it is not there."""
        address = (await self.route(queue)).address_of(queue.broker_name, broker_id)
        if address is None:
            raise ConnectError(f"topic {queue.topic}: the name servers know no address of broker {queue.broker_name}")
        return address

    def known_address(self, queue: MessageQueue) -> str | None:
        """Return the result of `reading_address` as far as the route is known; None if it is not."""
        route = self._core.routes.known(queue.topic)
        return None if route is None else route.address_of(queue.broker_name)

    async def master_address(self, queue: MessageQueue) -> str:
        """Return the address of the queue's master."""
        address = (await self.route(queue)).master_of(queue.broker_name)
        if address is None:
            address = (await self._core.routes.find(queue.topic, fresh=True)).master_of(queue.broker_name)
        if address is None:
            raise ConnectError(
                f"topic {queue.topic}: the name servers know no master of broker {queue.broker_name} now; is it down?"
            )
        return address

    # Offsets of the queue

    async def first_offset(self, queue: MessageQueue) -> int:
        """Return the smallest offset that is still kept."""
        return await self._api.get_min_offset(await self.master_address(queue), queue, self._seconds)

    async def end_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the next message will get."""
        return await self._api.get_max_offset(await self.master_address(queue), queue, self._seconds)

    async def offset_at(self, queue: MessageQueue, time_ms: int) -> int:
        """Return the offset of the first message that was stored then or later.

        Brokers before 5.0 return the nearest message instead, stored before or after.
        """
        address = await self.master_address(queue)
        return await self._api.search_offset(address, queue, time_ms, self._seconds, boundary=LOWER)

    async def start_offset(self, queue: MessageQueue, since_ms: int | None) -> int:
        """Return where to begin reading messages stored since then, or all that are kept.

        An older message may come first: brokers before 5.0 return the nearest message, stored before or after.
        """
        address = await self.reading_address(queue)
        if since_ms is None:
            return max(await self._api.get_min_offset(address, queue, self._seconds), 0)
        return max(await self._api.search_offset(address, queue, since_ms, self._seconds, boundary=LOWER) - 1, 0)

    async def earliest_store_time_ms(self, queue: MessageQueue) -> int:
        """Return when the oldest message that is still kept was stored; -1 if there is none."""
        return await self._api.earliest_store_time(await self.master_address(queue), queue, self._seconds)

    # Offsets of a consumer group

    async def committed_offset(self, group: str, queue: MessageQueue) -> int | None:
        """Return the group's committed offset; None if it has none."""
        return await self._api.query_consumer_offset(await self.reading_address(queue), group, queue, self._seconds)

    async def commit_offset(
        self, group: str, queue: MessageQueue, offset: int, *, oneway: bool = False, increase_only: bool = False
    ) -> None:
        """Commit *offset*. With *increase_only*, Hanabi's brokers keep a larger one; Apache's ignore the flag."""
        address = await self.reading_address(queue)
        await self._api.update_consumer_offset(
            address, group, queue, offset, self._seconds, oneway=oneway, increase_only=increase_only
        )

    # Messages

    async def pull(
        self, group: str, queue: MessageQueue, offset: int, count: int, subscription: SubscriptionData
    ) -> PullReply:
        """Return the master's answer to a pull that it does not hold, undecoded. For planning: a queue at a slave that
        lags would look as if it had lost messages.
        """
        header = pull_header(group, queue, offset, count, subscription)
        return await self._api.pull_message(await self.master_address(queue), header, self._seconds)
