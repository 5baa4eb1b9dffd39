"""Tables that a slave copies from its master, by requests to the master's port for clients.

    topics, groups      the whole table, if its data version differs
    consumer offsets    merged: what the master has changed since the last time wins; else the larger one stays, as a
                        slave takes commits while its master is away (Apache's slave loses these, #1094)
    delay offsets       the whole table; a master that has delayed nothing answers with an error
    request modes       the whole table      } 4.9 does not know these requests, and a broker without a timer refuses
    timer               counts, checkpoint   } the last two
    ends of queues      once for each copy of a log that does not begin at 0, of the queues without a message here

The first copy comes as soon as the master is known, and one out of turn when `hurry` is called, or as long as the ends
of queues are unknown, without which a slave cannot be promoted. A failed request is logged once a minute and does not
stop the remaining ones. Agrees with SlaveSynchronize; Apache's slave asks for some tables at the fast port, but every
port of a master answers. `MetadataSink` hides how a broker applies the tables; the decisions are in
`rules/copied_tables.py`.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol, TypeVar

from hanabi.errors import BrokerError, MQError
from hanabi.replication.rules.copied_tables import Offsets, merged_offsets
from hanabi.replication.rules.log_limits import RepeatedWarnings
from hanabi.wire.bodies.groups import SubscriptionGroupTable
from hanabi.wire.bodies.offsets import (
    ConsumerOffsetTable,
    DelayOffsetTable,
    TimerCheckpoint,
    TimerMetricsTable,
    decode_timer_checkpoint,
)
from hanabi.wire.bodies.pop import MessageRequestModeTable
from hanabi.wire.bodies.topics import DataVersion, TopicConfigTable
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import decode_body
from hanabi.wire.header import Header
from hanabi.wire.headers.offset import GetMaxOffsetHeader, OffsetReplyHeader

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 3.0  # after a copy that failed
INTERVAL_SECONDS: Final = 10.0
HURRY_SECONDS: Final = 0.5  # between two copies out of turn, at least
HURRY_SHARE: Final = 10  # and this many times the duration of the last copy
TIMEOUT_SECONDS: Final = 3.0
_ENDS_AT_ONCE: Final = 32  # requests in flight
_KEYS_AT_ONCE: Final = 1_000  # merged without a pause: about a millisecond

T = TypeVar("T")


class Asker(Protocol):
    """Client for requests to another broker; `remoting`'s Connector is one."""

    async def request(
        self,
        address: str,
        code: int,
        header: Header | None = None,
        *,
        timeout: float,  # noqa: ASYNC109
    ) -> Command:
        """Send a request to *address* and return the reply with any code."""


class MetadataSink(Protocol):
    """The tables of a slave. Those that are files are written when the call returns."""

    def topics_version(self) -> DataVersion: ...
    def take_topics(self, table: TopicConfigTable) -> None: ...
    def groups_version(self) -> DataVersion: ...
    def take_groups(self, table: SubscriptionGroupTable) -> None: ...

    def offsets(self) -> Offsets:
        """Return the current offsets, without a copy."""

    def take_offsets(self, offsets: Offsets) -> None: ...

    def master_has(self, table: ConsumerOffsetTable) -> None:
        """Note the master's offsets and their version, which are taken over by then."""

    def log_end(self) -> int:
        """Return where the slave's log ends."""

    def endless_queues(self) -> list[tuple[str, int]] | None:
        """Return the queues of the copied topics without a message here; None if their ends are known, or needless."""

    async def take_queue_ends(self, ends: Mapping[str, Mapping[int, int]]) -> None:
        """Keep the ends of such queues: topic, queue id, offset of the next message."""

    async def take_delay_offsets(self, table: DelayOffsetTable, log_offset: int) -> None:
        """Take over the progress of the delay levels. *log_offset*: the end of the log before the master was asked."""

    async def take_request_modes(self, table: MessageRequestModeTable) -> None: ...
    async def take_timer_metrics(self, table: TimerMetricsTable) -> None: ...
    def take_timer_checkpoint(self, checkpoint: TimerCheckpoint) -> None: ...


class MetadataSync:
    """Copies the tables of one master at a time, periodically. `run` until cancelled."""

    def __init__(
        self,
        asker: Asker,
        sink: MetadataSink,
        *,
        interval_seconds: float = INTERVAL_SECONDS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._asker, self._sink, self._interval_seconds, self._now = asker, sink, interval_seconds, now
        self._master: str | None = None
        self._changed = asyncio.Event()  # set when there is another master
        self._hurried = asyncio.Event()  # set when a copy is due out of turn
        self._seen: Offsets = {}  # of the last master, also while there is none
        self._warnings = RepeatedWarnings()
        self._unknown: set[RequestCode] = set()  # requests that this master does not support
        self.rounds = 0  # completed without an error
        self._has_ends = False  # of queues: without them this slave cannot be promoted

    @property
    def master(self) -> str | None:
        """Address of the master, which is asked for its tables; None: of none."""
        return self._master

    def follow(self, address: str | None) -> None:
        """Copy from the master at *address* from now on; None: from none."""
        if address != self._master:
            self._master, self._unknown = address, set()
            self._changed.set()

    def hurry(self) -> None:
        """Copy soon: the log has a message of a queue that is new here, so the tables may be old. Cheap."""
        self._hurried.set()

    async def run(self) -> None:
        """Copy every few seconds, while there is a master."""
        while True:
            self._changed.clear()
            self._hurried.clear()
            if self._master is None:
                await self._changed.wait()
                continue
            began = self._now()
            is_done = await self.copy(self._master)
            pause = self._interval_seconds if is_done else min(RETRY_SECONDS, self._interval_seconds)
            least = max(HURRY_SECONDS, HURRY_SHARE * (self._now() - began) if self._has_ends else 0)
            if is_done and not self._has_ends and self._sink.log_end() > 0:  # it began during this copy
                self.hurry()
            if not await _within(pause, self._changed, self._hurried):
                continue
            await _within(max(began + least - self._now(), 0), self._changed)

    async def copy(self, address: str) -> bool:
        """Copy all tables once; return whether all succeeded."""
        is_begun = self._sink.log_end() > 0  # before the topics are copied: later ones have their messages in the copy
        steps: tuple[tuple[str, Callable[[str], Awaitable[None]]], ...] = (
            ("topics", self._copy_topics),
            ("consumer offsets", self._copy_offsets),
            ("delay offsets", self._copy_delay_offsets),
            ("groups", self._copy_groups),
            ("message request modes", self._copy_request_modes),
            ("timer's counts", self._copy_timer_metrics),
            ("timer's checkpoint", self._copy_timer_checkpoint),
        )
        results = [await self._try(address, name, step) for name, step in steps]
        if is_begun and results[0]:
            self._has_ends = await self._try(address, "ends of queues", self._copy_queue_ends)
            results.append(self._has_ends)
        self.rounds += all(results)
        return all(results)

    async def _try(self, address: str, name: str, step: Callable[[str], Awaitable[None]]) -> bool:
        try:
            await step(address)
        except MQError as error:
            if self._warnings.is_due(name, self._now()):
                logger.warning("the %s of the master %s could not be copied, retrying: %s", name, address, error)
            return False
        self._warnings.forget(name)
        return True

    async def _copy_topics(self, address: str) -> None:
        table = await self._fetch(address, RequestCode.GET_ALL_TOPIC_CONFIG, TopicConfigTable)
        if table is None or not table.topic_config_table:  # every master has its own topics
            raise BrokerError(f"{address} answers with no topics at all: those that are here stay")
        if table.data_version != self._sink.topics_version():
            self._sink.take_topics(table)

    async def _copy_groups(self, address: str) -> None:
        table = await self._fetch(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, SubscriptionGroupTable)
        if table is None or not table.subscription_group_table:
            raise BrokerError(f"{address} answers with no groups at all: those that are here stay")
        if table.data_version != self._sink.groups_version():
            self._sink.take_groups(table)

    async def _copy_offsets(self, address: str) -> None:
        table = await self._fetch(address, RequestCode.GET_ALL_CONSUMER_OFFSET, ConsumerOffsetTable)
        if table is None:
            return
        seen, self._seen = self._seen, table.offset_table
        master = list(table.offset_table.items())
        for start in range(0, len(master), _KEYS_AT_ONCE):
            some = dict(master[start : start + _KEYS_AT_ONCE])
            changed = merged_offsets(self._sink.offsets(), some, seen)
            if changed:
                self._sink.take_offsets(changed)
            await asyncio.sleep(0)
        self._sink.master_has(table)

    async def _copy_delay_offsets(self, address: str) -> None:
        log_offset = self._sink.log_end()
        answer = await self._asker.request(address, RequestCode.GET_ALL_DELAY_OFFSET, timeout=TIMEOUT_SECONDS)
        if answer.code == ResponseCode.SYSTEM_ERROR:  # Apache's code for a master without that file
            return
        table = _decoded(answer, DelayOffsetTable, address)
        if table is not None and table.offset_table:
            await self._sink.take_delay_offsets(table, log_offset)

    async def _copy_request_modes(self, address: str) -> None:
        answer = await self._ask_if_known(address, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        table = _decoded(answer, MessageRequestModeTable, address) if answer is not None else None
        if table is not None:
            await self._sink.take_request_modes(table)

    async def _copy_timer_metrics(self, address: str) -> None:
        answer = await self._ask_if_known(address, RequestCode.GET_TIMER_METRICS)
        table = _decoded(answer, TimerMetricsTable, address) if answer is not None else None
        if table is not None:
            await self._sink.take_timer_metrics(table)

    async def _copy_timer_checkpoint(self, address: str) -> None:
        answer = await self._ask_if_known(address, RequestCode.GET_TIMER_CHECK_POINT)
        if answer is not None and answer.code == ResponseCode.SUCCESS:
            self._sink.take_timer_checkpoint(decode_timer_checkpoint(bytes(answer.body)))

    async def _copy_queue_ends(self, address: str) -> None:
        queues = self._sink.endless_queues()
        if queues is None:
            return
        ends: dict[str, dict[int, int]] = {}
        for start in range(0, len(queues), _ENDS_AT_ONCE):
            some = queues[start : start + _ENDS_AT_ONCE]
            found = await asyncio.gather(*(self._queue_end(address, topic, queue_id) for topic, queue_id in some))
            for (topic, queue_id), end in zip(some, found, strict=True):
                if end:
                    ends.setdefault(topic, {})[queue_id] = end
        await self._sink.take_queue_ends(ends)

    async def _queue_end(self, address: str, topic: str, queue_id: int) -> int:
        header = GetMaxOffsetHeader(topic=topic, queue_id=queue_id)
        answer = await self._asker.request(address, RequestCode.GET_MAX_OFFSET, header, timeout=TIMEOUT_SECONDS)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError.from_reply(answer.code, answer.remark, asked=f"{address} was asked for ends of queues")
        return answer.header(OffsetReplyHeader).offset

    async def _ask_if_known(self, address: str, code: RequestCode) -> Command | None:
        """Ask for a table of 5.x; None if this master does not know it, or has none: its timer may be switched off."""
        if code in self._unknown:
            return None
        answer = await self._asker.request(address, code, timeout=TIMEOUT_SECONDS)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            self._unknown.add(code)
        return answer if answer.code == ResponseCode.SUCCESS else None

    async def _fetch(self, address: str, code: RequestCode, kind: type[T]) -> T | None:
        return _decoded(await self._asker.request(address, code, timeout=TIMEOUT_SECONDS), kind, address)


async def _within(seconds: float, *events: asyncio.Event) -> bool:
    """Wait until one of *events* is set, for at most *seconds*; return whether one is."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        done, _ = await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waiting:
            one.cancel()
    return bool(done)


def _decoded(answer: Command, kind: type[T], address: str) -> T | None:
    """Return the body of *answer*; None if it has none. Raise BrokerError for a refusal."""
    if answer.code != ResponseCode.SUCCESS:
        raise BrokerError.from_reply(answer.code, answer.remark, asked=f"{address} was asked for its tables")
    return decode_body(bytes(answer.body), kind) if answer.body else None
