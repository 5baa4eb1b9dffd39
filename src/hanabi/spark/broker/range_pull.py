"""Pull of a range of a queue: several pulls in flight, answers in order, raw records unchanged.

A broker answers a pull with at most 32 messages. So the range is cut into slots of that size, and several slots are
requested at the same time; a partly answered slot is requested again from there on. With a filter the broker scans many
more messages for one answer, so slots are longer.

Nearly all slots are answered completely over an open connection: this fast path needs no task. Only the remaining slots
start one.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Final, TypeAlias

from hanabi.client.cluster.api import PULLED, PullReply
from hanabi.client.cluster.core import Core
from hanabi.client.cluster.queue_access import QueueAccess, pull_header
from hanabi.client.cluster.read_targets import ReadTargets
from hanabi.client.consumer.subscription import Expression, subscription_data
from hanabi.errors import BrokerError, RemoteProtocolError, TransportError
from hanabi.message import MessageQueue
from hanabi.spark.broker.options import ReadOptions
from hanabi.spark.broker.retrying import patiently
from hanabi.spark.shared.data_loss import lost
from hanabi.spark.shared.offsets import describe
from hanabi.spark.shared.ranges import QueueRange
from hanabi.wire.bodies.heartbeat import SQL92, SubscriptionData
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.header import header_fields
from hanabi.wire.headers.pull import PullMessageReplyHeader

SLOT: Final = 32
FILTERED_SLOT: Final = 16_384
CHUNK_BYTES_MAX: Final = 16 << 20

Slot: TypeAlias = "asyncio.Future[list[bytes]]"


class NotThereYet(TransportError):
    """The master has less of the queue than at planning time."""


class SlaveBehind(TransportError):
    """A slave has no message at an offset that its master had at planning time. Nothing is lost: the master has it."""


class RangePull:
    """Pull of one range. Belongs to an event loop; `close` it."""

    def __init__(self, core: Core, options: ReadOptions, expression: Expression, part: QueueRange) -> None:
        self._core, self._options, self._part, self._queues = core, options, part, QueueAccess(core)
        self._subscription = subscription_data(part.queue.topic, expression, 0)
        self._is_filtered = bool(self._subscription.tags_set) or self._subscription.expression_type == SQL92
        self._targets = ReadTargets(core.api.silent)
        self._fields = _fields_of_all(options, part.queue, self._subscription)
        self._slots = self._cut()
        self._under_way: deque[Slot] = deque()
        self._tasks: set[asyncio.Task[list[bytes]]] = set()  # for slots off the fast path
        self._ahead: asyncio.Task[list[bytes]] | None = None

    async def chunk(self) -> list[bytes]:
        """Return the next answers, about enough for a batch; empty at the end.

        The following ones are already in flight.
        """
        ahead = self._ahead or asyncio.ensure_future(self._chunk())
        self._ahead = ahead
        found = await ahead
        self._ahead = asyncio.ensure_future(self._chunk()) if found else None
        return found

    async def close(self) -> None:
        """Cancel all pulls in flight."""
        waiting = [*self._under_way, *self._tasks, *([self._ahead] if self._ahead else [])]
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    def _cut(self) -> Iterator[tuple[int, int]]:
        size = FILTERED_SLOT if self._is_filtered else SLOT
        for start in range(self._part.start, self._part.end, size):
            yield start, min(start + size, self._part.end)

    async def _chunk(self) -> list[bytes]:
        bodies: list[bytes] = []
        slots, size = 0, 0
        while slots * SLOT < self._options.batch_rows and size < CHUNK_BYTES_MAX:
            while len(self._under_way) < self._options.pulls_in_flight and (slot := next(self._slots, None)):
                self._under_way.append(self._begin(*slot))
            if not self._under_way:
                break
            found = await self._under_way[0]  # not popped yet: `close` must find it
            self._under_way.popleft()
            bodies += found
            size += sum(map(len, found))
            slots += len(found) if self._is_filtered else 1
        return bodies

    def _begin(self, offset: int, end: int) -> Slot:
        """Start a pull of the messages [*offset*, *end*), and return the slot of its answers."""
        slot: Slot = asyncio.get_running_loop().create_future()

        def ended(answer: Command | TransportError) -> None:
            if slot.done():  # closed meanwhile
                return
            body, following, suggested = _plain_answer(answer, offset)
            if suggested is not None:
                self._targets.answered(self._part.queue, suggested)
            if following >= end:
                slot.set_result(body)
            else:
                self._go_on(slot, following, end, body)

        route = self._core.routes.known(self._part.queue.topic)
        address = None if route is None else self._targets.address(route, self._part.queue)
        fields, seconds = self._fields_at(offset, end - offset), self._core.config.request_timeout_s
        if address is None or not self._core.api.ask_at_once(
            address, RequestCode.PULL_MESSAGE, fields, b"", seconds, ended
        ):
            self._go_on(slot, offset, end, [])
        return slot

    def _go_on(self, slot: Slot, offset: int, end: int, found: list[bytes]) -> None:
        """Start a task that pulls the rest of *slot*, of which *found* has arrived."""

        def ended(task: "asyncio.Task[list[bytes]]") -> None:
            self._tasks.discard(task)
            if slot.done():
                return
            if task.cancelled():
                slot.cancel()
            elif (error := task.exception()) is not None:
                slot.set_exception(error)
            else:
                slot.set_result([*found, *task.result()])

        task = asyncio.ensure_future(self._fetch(offset, end))
        self._tasks.add(task)
        task.add_done_callback(ended)

    async def _fetch(self, offset: int, end: int) -> list[bytes]:
        """Pull the messages [*offset*, *end*) one request after another, with retries; return all answers."""
        queue, fail = self._part.queue, self._options.fail_on_data_loss
        bodies: list[bytes] = []
        while offset < end:
            at = offset
            try:
                patience_s = self._options.retry_s
                reply = await patiently(lambda at=at: self._pull(at, end - at), patience_s)  # type: ignore[misc]
            except NotThereYet as error:
                lost(queue, offset, end, str(error), fail=fail)
                break
            following = reply.header.next_begin_offset
            if following <= offset:
                raise RemoteProtocolError(
                    f"{describe(queue)}: after a pull at {offset} the broker continues at {following}"
                )
            if reply.code == ResponseCode.SUCCESS:
                bodies.append(reply.body)
            elif reply.code == ResponseCode.PULL_OFFSET_MOVED:
                why = f"the oldest that is kept is {reply.header.min_offset}"
                lost(queue, offset, min(following, end), why, fail=fail)
            offset = following
        return bodies

    async def _pull(self, offset: int, count: int) -> PullReply:
        queue, seconds = self._part.queue, self._core.config.request_timeout_s
        fields = self._fields_at(offset, count)
        route = await self._queues.route(queue)
        address = self._targets.address(route, queue) or await self._queues.reading_address(queue)
        try:
            told = await self._core.api.ask(address, RequestCode.PULL_MESSAGE, fields, timeout=seconds, accept=PULLED)
        except BrokerError:
            self._targets.forget(queue)  # a slave that refuses is not asked again
            raise
        reply = PullReply(told.code, told.header(PullMessageReplyHeader), told.body)
        self._targets.answered(queue, reply.header.suggest_which_broker_id)
        if reply.header.offset_delta:
            raise RemoteProtocolError(f"{describe(queue)}: it moved between brokers, which is not supported here")
        stands_still = reply.code != ResponseCode.SUCCESS and reply.header.next_begin_offset <= offset
        if stands_still and address != route.master_of(queue.broker_name):
            raise SlaveBehind(
                f"{describe(queue)}: the slave {address} has the offsets from {reply.header.min_offset} up to, but"
                f" without, {reply.header.max_offset}, not {offset}; is its master up?"
            )
        is_illegal = stands_still and reply.code == ResponseCode.PULL_OFFSET_MOVED
        if reply.code == ResponseCode.PULL_NOT_FOUND or is_illegal:
            raise NotThereYet(f"the queue ends at {reply.header.max_offset}")
        return reply

    def _fields_at(self, offset: int, count: int) -> dict[str, str]:
        return {**self._fields, "queueOffset": str(offset), "maxMsgNums": str(min(count, SLOT))}


def _plain_answer(answer: Command | TransportError, offset: int) -> tuple[list[bytes], int, int | None]:
    """Return the records of a pull at *offset*, the next offset, and the suggested broker id.

    The next offset is *offset* again if the answer is not a plain success; `RangePull._fetch` then handles it.
    """
    if isinstance(answer, TransportError) or answer.code != ResponseCode.SUCCESS:
        return [], offset, None
    try:
        header = answer.header(PullMessageReplyHeader)
    except RemoteProtocolError:
        return [], offset, None
    if header.offset_delta or header.next_begin_offset <= offset:
        return [], offset, None
    return [answer.body], header.next_begin_offset, header.suggest_which_broker_id


def _fields_of_all(options: ReadOptions, queue: MessageQueue, subscription: SubscriptionData) -> dict[str, str]:
    """Return the fields that all pulls of a queue share. Built once, because they cost more than the rest of a pull."""
    return header_fields(pull_header(options.pulling_group, queue, 0, 0, subscription))
