"""Offsets of groups: show, reset backwards or forwards, skip, copy to another group.

A reset is planned first, queue by queue, and the plan can be shown before anything changes; a reset is idempotent. If
members are online their broker notifies them (222); otherwise the offsets are written (15), as mqadmin's
resetOffsetByTime and its old form do. One queue or one exact offset can be set only while no member is online: 4.9's
brokers would apply such a request to all queues.
"""

from typing import Final

from hanabi.admin.access import Access, BrokerAt, each
from hanabi.admin.answer import Answer
from hanabi.admin.groups import Groups, QueueProgress
from hanabi.errors import ConfigError, InvalidParameter
from hanabi.message import MessageQueue
from hanabi.wire.codes import RequestCode
from hanabi.wire.headers.offset import ResetOffsetHeader

FIRST_MS: Final = 0
LAST_MS: Final = -1  # "the end" in requests to brokers
RESET_SECONDS: Final = 10.0


class QueueOffset(Answer, frozen=True, kw_only=True):
    """A queue and the group's offset in it; `group_offset` is None where it has not begun."""

    topic: str
    broker: str
    queue_id: int
    min_offset: int
    max_offset: int
    group_offset: int | None
    lag: int


class Target(Answer, frozen=True, kw_only=True):
    """Target of a reset: the first message, the end, the first one stored at a time, or an offset."""

    time_ms: int | None = None
    first: bool = False
    last: bool = False
    offset: int | None = None

    def __post_init__(self) -> None:
        if sum((self.time_ms is not None, self.first, self.last, self.offset is not None)) != 1:
            raise ConfigError("say where to, once: the first message, the last, a time or an offset")

    @property
    def broker_time_ms(self) -> int:
        """Return the target in the form of requests to brokers."""
        if self.first:
            return FIRST_MS
        return LAST_MS if self.last else self.time_ms or 0


class OffsetMove(Answer, frozen=True, kw_only=True):
    """One queue's part of a reset."""

    topic: str
    broker: str
    queue_id: int
    old_offset: int | None
    new_offset: int


class Reset(Answer, frozen=True, kw_only=True):
    """A reset, planned or done; `online` says that members are online, and are notified by their brokers."""

    group: str
    topic: str
    online: bool
    moves: list[OffsetMove]


class Offsets:
    """Queries and actions about the offsets of groups."""

    def __init__(self, access: Access, groups: Groups) -> None:
        self._access, self._groups = access, groups

    async def show(self, group: str, topic: str) -> list[QueueOffset]:
        """Return the first and last offset of each queue of a topic, and the group's offset in it."""
        await self._known(group)
        queues = await self._queues(topic)

        async def look(place: tuple[BrokerAt, MessageQueue]) -> QueueOffset:
            broker, queue = place
            api = self._access.api
            first = max(await api.get_min_offset(broker.address, queue), 0)
            last = await api.get_max_offset(broker.address, queue)
            offset = await self._offset(broker, group, queue)
            return QueueOffset(
                topic=topic,
                broker=queue.broker_name,
                queue_id=queue.queue_id,
                min_offset=first,
                max_offset=last,
                group_offset=offset,
                lag=last - (first if offset is None else offset),
            )

        return await each(queues, look)

    async def plan(self, group: str, topic: str, target: Target, queue_id: int | None = None) -> Reset:
        """Plan a reset without doing it."""
        await self._known(group)
        online = bool((await self._groups.members(group)).members)
        if online and (queue_id is not None or target.offset is not None):
            raise InvalidParameter(
                f"group {group} has members online, so single queues and exact offsets cannot be set: stop them, or"
                " reset to a time"
            )
        queues = [place for place in await self._queues(topic) if queue_id in (None, place[1].queue_id)]
        if not queues:
            which = "queue" if queue_id is None else f"queue {queue_id}"
            raise InvalidParameter(f"topic {topic} has no {which} that can be read on a master that is there now")

        async def move(place: tuple[BrokerAt, MessageQueue]) -> OffsetMove:
            broker, queue = place
            return OffsetMove(
                topic=topic,
                broker=queue.broker_name,
                queue_id=queue.queue_id,
                old_offset=await self._offset(broker, group, queue),
                new_offset=await self._target_offset(broker, queue, target),
            )

        return Reset(group=group, topic=topic, online=online, moves=await each(queues, move))

    async def reset(self, group: str, topic: str, target: Target, queue_id: int | None = None) -> Reset:
        """Set a group's offsets in a topic, backwards or forwards. Return the moves made."""
        plan = await self.plan(group, topic, target, queue_id)
        brokers = {broker.broker: broker for broker in await self._access.topic_masters(topic)}
        if plan.online:
            for move in plan.moves:
                if move.old_offset is None:  # a broker refuses to reset a queue that has not begun
                    await self._set(brokers[move.broker], group, move)
            header = ResetOffsetHeader(topic=topic, group=group, timestamp=target.broker_time_ms, is_force=True)
            for name in sorted({move.broker for move in plan.moves}):
                # A member is connected to every broker of its topics, so one broker's answer holds for all.
                await self._access.ask(
                    brokers[name], RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header, seconds=RESET_SECONDS
                )
            return plan
        for move in plan.moves:
            await self._set(brokers[move.broker], group, move)
        return plan

    async def skip(self, group: str, topic: str) -> Reset:
        """Skip everything stored now: the group continues with new messages."""
        return await self.reset(group, topic, Target(last=True))

    async def plan_clone(self, source: str, destination: str, topic: str | None = None) -> list[OffsetMove]:
        """Plan the copy of one group's offsets to another."""
        progress = await self._groups.progress(source, topic)
        if not progress.queues:
            place = f" in topic {topic}" if topic else ""
            raise InvalidParameter(f"group {source} has no offsets{place}: there is nothing to copy")
        await self._known(destination)
        if (await self._groups.members(destination)).members:
            raise InvalidParameter(f"group {destination} has members online, which would overwrite it: stop them first")
        brokers = {broker.broker: broker for broker in await self._access.masters()}

        async def move(queue: QueueProgress) -> OffsetMove:
            place = MessageQueue(queue.topic, queue.broker, queue.queue_id)
            return OffsetMove(
                topic=queue.topic,
                broker=queue.broker,
                queue_id=queue.queue_id,
                old_offset=await self._offset(brokers[queue.broker], destination, place),
                new_offset=queue.group_offset,
            )

        return await each([queue for queue in progress.queues if queue.group_offset >= 0], move)

    async def clone(self, source: str, destination: str, topic: str | None = None) -> list[OffsetMove]:
        """Copy the offsets of a group to another, in all its topics or in one."""
        moves = await self.plan_clone(source, destination, topic)
        brokers = {broker.broker: broker for broker in await self._access.masters()}
        for move in moves:
            await self._set(brokers[move.broker], destination, move)
        return moves

    async def _known(self, group: str) -> None:
        """Raise if no broker knows the group: an offset for a misspelt name is of no use."""
        await self._groups.settings(group)

    async def _queues(self, topic: str) -> list[tuple[BrokerAt, MessageQueue]]:
        brokers = {broker.broker: broker for broker in await self._access.topic_masters(topic)}
        route = await self._access.core.routes.find(topic)
        return [(brokers[queue.broker_name], queue) for queue in route.read_queues if queue.broker_name in brokers]

    async def _offset(self, broker: BrokerAt, group: str, queue: MessageQueue) -> int | None:
        # Without the flag, 5.x returns 0 for a group that has not begun, if the queue still has its first message.
        found = await self._access.api.query_consumer_offset(broker.address, group, queue, set_zero_if_not_found=False)
        return None if found is None or found < 0 else found

    async def _target_offset(self, broker: BrokerAt, queue: MessageQueue, target: Target) -> int:
        api = self._access.api
        first = max(await api.get_min_offset(broker.address, queue), 0)
        if target.first:
            return first
        last = await api.get_max_offset(broker.address, queue)
        if target.last:
            return last
        if target.offset is not None:
            if not first <= target.offset <= last:
                raise InvalidParameter(
                    f"queue {queue.queue_id} of {queue.broker_name} has offsets from {first} to {last},"
                    f" {target.offset} is none of them"
                )
            return target.offset
        return await api.search_offset(broker.address, queue, target.time_ms or 0)

    async def _set(self, broker: BrokerAt, group: str, move: OffsetMove) -> None:
        queue = MessageQueue(move.topic, move.broker, move.queue_id)
        await self._access.api.update_consumer_offset(broker.address, group, queue, move.new_offset, oneway=False)
