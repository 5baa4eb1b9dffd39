"""Return of a master: it takes over the work of its slaves before name servers and clients know it again.

    members of our name? ── none ──────────────────────────────────────────────> online
         │ each, the smallest id first
         ├─ 906: slaves connect to us at ...
         ├─ wait until it is connected to our port for slaves
         └─ 43, 45, 60: offsets of consumers, delay levels and the timer; larger ones replace ours

A failure is retried every second, from the beginning: a member that has died expires at the name servers. An operator
who cannot wait sets `skipPreOnline`. Agrees with BrokerPreOnlineService (5.3.3), which replaces its offsets as a whole
if their data version is not newer than the slave's.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from hanabi.broker.acting.member_rules import Members, others
from hanabi.broker.registration import Identity
from hanabi.errors import BrokerError, MQError
from hanabi.remoting.address import parse_address
from hanabi.replication.metadata import Asker
from hanabi.replication.rules.log_limits import RepeatedWarnings
from hanabi.wire.bodies.offsets import (
    ConsumerOffsetTable,
    DelayOffsetTable,
    TimerCheckpoint,
    decode_timer_checkpoint,
)
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import decode_body
from hanabi.wire.header import Header
from hanabi.wire.headers.v5.replication import ExchangeHAInfoHeader

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 1.0
TIMEOUT_SECONDS: Final = 3.0
CONNECT_SECONDS: Final = 10.0  # for the slave to connect
_LOOK_SECONDS: Final = 0.05

Offsets = Mapping[str, Mapping[int, int]]


class ReturningMaster(Protocol):
    """Parts of a master that take over the work of its slaves."""

    def slave_hosts(self) -> set[str]:
        """Return the addresses of the machines whose slaves are connected."""

    def take_offsets(self, offsets: Offsets) -> None: ...
    async def take_delay_offsets(self, offsets: Mapping[int, int]) -> None: ...
    def take_timer_checkpoint(self, checkpoint: TimerCheckpoint) -> None: ...


class PreOnline:
    """One return. `run` ends when the master may go online."""

    def __init__(
        self,
        identity: Identity,
        members: Callable[[], Awaitable[Members | None]],
        asker: Asker,
        master: ReturningMaster,
        *,
        first_end_offset: int,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._identity, self._members, self._asker, self._master = identity, members, asker, master
        self._first_end_offset, self._now = first_end_offset, now
        self._warnings = RepeatedWarnings()

    async def run(self) -> None:
        """Try until it succeeds."""
        while True:
            try:
                await self._prepare()
            except MQError as error:
                if self._warnings.is_due("", self._now()):
                    logger.warning("this master is not online yet, retrying: %s (skipPreOnline=true skips this)", error)
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return

    async def _prepare(self) -> None:
        members = await self._members()
        if members is None:
            raise BrokerError("no name server answers")
        slaves = others(self._identity.broker_id, members)
        for broker_id, address in slaves:
            await self._connect(broker_id, address)
            await self._take_tables(broker_id, address)
        logger.info("this master is online, with the work of %d slaves", len(slaves))

    async def _connect(self, broker_id: int, address: str) -> None:
        header = ExchangeHAInfoHeader(
            master_ha_address=self._identity.ha_address,
            master_flush_offset=self._first_end_offset,
            master_address=self._identity.address,
        )
        await self._ask(address, RequestCode.EXCHANGE_BROKER_HA_INFO, header)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                while _host(address) not in self._master.slave_hosts():  # noqa: ASYNC110 - once, at the start
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError as error:
            raise BrokerError(f"slave {broker_id} at {address} does not connect to us") from error

    async def _take_tables(self, broker_id: int, address: str) -> None:
        offsets = await self._ask(address, RequestCode.GET_ALL_CONSUMER_OFFSET)
        if offsets.body:
            self._master.take_offsets(decode_body(bytes(offsets.body), ConsumerOffsetTable).offset_table)
        delays = await self._asker.request(address, RequestCode.GET_ALL_DELAY_OFFSET, timeout=TIMEOUT_SECONDS)
        if delays.code == ResponseCode.SUCCESS and delays.body:  # Apache's refuses if it has no such file
            table = decode_body(bytes(delays.body), DelayOffsetTable)
            await self._master.take_delay_offsets(table.offset_table)
        timer = await self._asker.request(address, RequestCode.GET_TIMER_CHECK_POINT, timeout=TIMEOUT_SECONDS)
        if timer.code == ResponseCode.SUCCESS:  # refused by a broker without a timer
            self._master.take_timer_checkpoint(decode_timer_checkpoint(bytes(timer.body)))
        logger.info("took over the offsets of slave %d at %s", broker_id, address)

    async def _ask(self, address: str, code: RequestCode, header: Header | None = None) -> Command:
        reply = await self._asker.request(address, code, header, timeout=TIMEOUT_SECONDS)
        if reply.code != ResponseCode.SUCCESS:
            raise BrokerError.from_reply(reply.code, reply.remark, asked=f"{code.name} at {address}")
        return reply


def _host(address: str) -> str:
    try:
        return parse_address(address)[0]
    except ValueError as error:
        raise BrokerError(f"a name server lists {address}: {error}") from error
