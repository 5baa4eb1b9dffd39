"""Tables that a slave copies from its master, by requests to the master's port for clients.

    topics, groups      the whole table, if its data version differs
    consumer offsets    merged: what the master has changed since the last time wins; else the larger one stays, as a
                        slave takes commits while its master is away (Apache's slave loses these, #1094)
    delay offsets       the whole table; a master that has delayed nothing answers with an error
    request modes       the whole table; 4.9 does not know the request

Agrees with SlaveSynchronize. Apache's slave asks for topics at the fast port; every port of a master answers. A failed
request is logged once a minute and does not stop the remaining ones. `MetadataSink` hides how a broker applies the
tables; the timers' state (60, 61) is not copied.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol, TypeVar

from hanabi.errors import BrokerError, MQError
from hanabi.replication.rules.log_limits import Complaints
from hanabi.wire.bodies.groups import SubscriptionGroupTable
from hanabi.wire.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from hanabi.wire.bodies.pop import MessageRequestModeTable
from hanabi.wire.bodies.topics import DataVersion, TopicConfigTable
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import decode_body

logger = logging.getLogger(__name__)

FIRST_SECONDS: Final = 3.0
INTERVAL_SECONDS: Final = 10.0
TIMEOUT_SECONDS: Final = 3.0

Offsets = Mapping[str, Mapping[int, int]]  # "topic@group" -> queue id -> offset
T = TypeVar("T")


class Asker(Protocol):
    """Client for requests to the master; `remoting`'s Connector is one."""

    async def request(self, address: str, code: int, *, timeout: float) -> Command:  # noqa: ASYNC109
        """Send a request to *address* and return the reply with any code."""


class MetadataSink(Protocol):
    """The tables of a slave."""

    def topics_version(self) -> DataVersion: ...
    def take_topics(self, table: TopicConfigTable) -> None: ...
    def groups_version(self) -> DataVersion: ...
    def take_groups(self, table: SubscriptionGroupTable) -> None: ...
    def offsets(self) -> Offsets: ...
    def take_offsets(self, offsets: Offsets) -> None: ...
    def take_delay_offsets(self, table: DelayOffsetTable) -> None: ...
    def take_request_modes(self, table: MessageRequestModeTable) -> None: ...


def merged_offsets(local: Offsets, master: Offsets, seen: Offsets) -> Offsets:
    """Return the offsets of *master* that a slave must take; *seen* is the master's previous table.

    The master wins for an offset that it has changed, also backwards (a reset). Otherwise a larger offset that was
    committed here stays.
    """
    taken: dict[str, dict[int, int]] = {}
    for key, queues in master.items():
        here, before = local.get(key, {}), seen.get(key, {})
        changed = {
            queue_id: offset
            for queue_id, offset in queues.items()
            if here.get(queue_id) != offset and (before.get(queue_id, -1) != offset or here.get(queue_id, -1) < offset)
        }
        if changed:
            taken[key] = changed
    return taken


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
        self._seen: Offsets = {}
        self._complaints = Complaints()
        self._unknown: set[RequestCode] = set()  # requests that this master does not support
        self.rounds = 0  # completed without an error

    def follow(self, address: str | None) -> None:
        """Copy from the master at *address* from now on; None: from none."""
        if address != self._master:
            self._master, self._seen, self._unknown = address, {}, set()

    async def run(self) -> None:
        """Copy every few seconds, while there is a master."""
        await asyncio.sleep(min(FIRST_SECONDS, self._interval_seconds))
        while True:
            if self._master is not None:
                await self.copy(self._master)
            await asyncio.sleep(self._interval_seconds)

    async def copy(self, address: str) -> bool:
        """Copy all tables once; return whether all succeeded."""
        steps: tuple[tuple[str, Callable[[str], Awaitable[None]]], ...] = (
            ("topics", self._copy_topics),
            ("consumer offsets", self._copy_offsets),
            ("delay offsets", self._copy_delay_offsets),
            ("groups", self._copy_groups),
            ("message request modes", self._copy_request_modes),
        )
        results = [await self._try(address, name, step) for name, step in steps]
        self.rounds += all(results)
        return all(results)

    async def _try(self, address: str, name: str, step: Callable[[str], Awaitable[None]]) -> bool:
        try:
            await step(address)
        except MQError as error:
            if self._complaints.is_due(name, self._now()):
                logger.warning("the %s of the master %s could not be copied, retrying: %s", name, address, error)
            return False
        self._complaints.forget(name)
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
        changed = merged_offsets(self._sink.offsets(), table.offset_table, self._seen)
        self._seen = table.offset_table
        if changed:
            self._sink.take_offsets(changed)

    async def _copy_delay_offsets(self, address: str) -> None:
        answer = await self._asker.request(address, RequestCode.GET_ALL_DELAY_OFFSET, timeout=TIMEOUT_SECONDS)
        if answer.code == ResponseCode.SYSTEM_ERROR:  # Apache's code for a master without that file
            return
        table = _decoded(answer, DelayOffsetTable, address)
        if table is not None and table.offset_table:
            self._sink.take_delay_offsets(table)

    async def _copy_request_modes(self, address: str) -> None:
        code = RequestCode.GET_ALL_MESSAGE_REQUEST_MODE
        if code in self._unknown:
            return
        answer = await self._asker.request(address, code, timeout=TIMEOUT_SECONDS)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            self._unknown.add(code)
            return
        table = _decoded(answer, MessageRequestModeTable, address)
        if table is not None:
            self._sink.take_request_modes(table)

    async def _fetch(self, address: str, code: RequestCode, kind: type[T]) -> T | None:
        return _decoded(await self._asker.request(address, code, timeout=TIMEOUT_SECONDS), kind, address)


def _decoded(answer: Command, kind: type[T], address: str) -> T | None:
    """Return the body of *answer*; None if it has none. Raise BrokerError for a refusal."""
    if answer.code != ResponseCode.SUCCESS:
        raise BrokerError.from_reply(answer.code, answer.remark, asked=f"{address} was asked for its tables")
    return decode_body(bytes(answer.body), kind) if answer.body else None
