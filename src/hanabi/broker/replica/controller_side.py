"""Part of a broker in controller mode that talks to the controllers and changes the broker's role.

    id (three steps) ─> register ─> heartbeats every second ─> a role: from the controller's answer, its notice (1008),
                                                               or the poll (1004)
    master: replicas join and leave the set (1001); it is fenced when no controller answers for a heartbeat timeout

Decisions are in `replication/rules`. Agrees with ReplicasManager (5.3.3), which never fences a master that is cut off.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from hanabi.broker.replica.broker_identity import IdentityFiles
from hanabi.broker.replica.controller_requests import ControllerRequests
from hanabi.broker.settings import Settings
from hanabi.errors import BrokerError, MQError
from hanabi.replication.autoswitch.acks import InSyncAcks
from hanabi.replication.autoswitch.epochs import EpochFile
from hanabi.replication.rules.role_news import Change, RoleNews, change_for
from hanabi.replication.rules.sync_set import SyncSet, wanted_members
from hanabi.wire.headers.namesrv import BrokerHeartbeatHeader

logger = logging.getLogger(__name__)

NEAR_BYTES: Final = 4 << 20  # a slave so near may join: puts wait for it from then on
RETRY_SECONDS: Final = 1.0
HEARTBEAT_SECONDS: Final = 1.0
JOIN_SECONDS: Final = 2.0  # for a near slave to hold everything
UNSURE_SECONDS: Final = 30.0  # a request without an answer may be executed so late


class RoleHolder(Protocol):
    """The broker, as far as its role can be changed."""

    async def become_master(self, broker_id: int, epoch: int, sync_set: SyncSet) -> None: ...
    async def become_slave(self, broker_id: int, epoch: int, master_address: str) -> None: ...
    def fence(self, reason: str | None) -> None: ...


class ControllerSide:
    """One broker in controller mode. `run` until cancelled."""

    def __init__(
        self,
        requests: ControllerRequests,
        files: IdentityFiles,
        settings: Settings,
        holder: RoleHolder,
        acks: InSyncAcks,
        epochs: EpochFile,
        *,
        address: str,
        end_offset: Callable[[], int],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._requests, self._files, self._settings, self._holder = requests, files, settings, holder
        self._acks, self._epochs, self._address, self._end_offset, self._now = acks, epochs, address, end_offset, now
        self.known: RoleNews | None = None
        self._changing = asyncio.Lock()
        self._progress = asyncio.Event()
        self._news = asyncio.Event()
        self._answered_at = now()
        self._is_fenced = False
        self._unsure_until = 0.0
        self.has_role = asyncio.Event()

    @property
    def broker_id(self) -> int:
        """The id that the controller gave this broker; -1 before."""
        return self._files.identity.broker_id if self._files.identity is not None else -1

    @property
    def is_master(self) -> bool:
        return self.known is not None and self.known.master_id == self.broker_id

    def progress(self) -> None:
        """Note that a replica came, went, or holds more."""
        self._progress.set()

    def notified(self, news: RoleNews) -> None:
        """Look at the roles now: a controller has sent a notice. Its content is not believed: any peer may send it."""
        if self.known is None or news.master_epoch > self.known.master_epoch:
            self._news.set()

    async def run(self) -> None:
        """Keep the role, until cancelled."""
        await self._with_retries(self._take_id)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_beating(), name="heartbeats to controllers")
            tasks.create_task(self._keep_role(), name="role of this broker")
            tasks.create_task(self._keep_set(), name="replicas in sync")

    # The id

    async def _with_retries(self, work: Callable[[], object]) -> None:
        failures = 0
        while True:
            try:
                result = work()
                if asyncio.iscoroutine(result):
                    await result
            except MQError as error:
                if not failures:
                    logger.warning("not registered with a controller, retrying: %s", error)
                failures += 1
            else:
                return
            await asyncio.sleep(RETRY_SECONDS)

    async def _take_id(self) -> None:
        files = self._files
        while files.identity is None:
            if files.application is None:
                check_code = f"{self._address};{int(time.time() * 1000)}"
                files.apply(await self._requests.next_id(), check_code)
            application = files.application
            if application is None:
                continue
            if await self._requests.apply_id(application.broker_id, application.check_code):
                files.confirm()
                logger.info("this broker has the id %d of %s", application.broker_id, application.name)
            else:
                files.withdraw()

    # Heartbeats

    async def _keep_beating(self) -> None:
        while True:
            await self.beat()
            self._look_at_fence()
            await asyncio.sleep(HEARTBEAT_SECONDS)

    async def beat(self) -> None:
        """Send one heartbeat to every controller."""
        broker = self._settings.broker
        await self._requests.beat(
            BrokerHeartbeatHeader(
                cluster_name=broker.cluster_name,
                broker_addr=self._address,
                broker_name=broker.broker_name,
                broker_id=self.broker_id,
                epoch=self._epochs.last,
                max_offset=self._end_offset(),
                confirm_offset=min(self._acks.confirmed, self._end_offset()),
                heartbeat_timeout_mills=broker.controller_heartbeat_timeout_ms,
                election_priority=broker.election_priority,
            )
        )

    def _look_at_fence(self) -> None:
        """Refuse messages while no controller answers: another master may have been elected."""
        broker = self._settings.broker
        silent = self._now() - self._answered_at
        is_cut_off = self.is_master and silent * 1000 > broker.controller_heartbeat_timeout_ms
        if is_cut_off and broker.fence_without_controller and not self._is_fenced:
            logger.error("no controller has answered for %.0f s: messages are refused until one does", silent)
            self._is_fenced = True
            self._holder.fence("this master has lost its controllers, another may be elected: retry")

    def _answered(self, asked_at: float) -> None:
        self._answered_at = max(self._answered_at, asked_at)
        if self._is_fenced:
            self._is_fenced = False
            self._holder.fence(None)

    # The role

    async def _keep_role(self) -> None:
        complained = False
        is_registered = False
        while True:
            self._news.clear()
            asked_at = self._now()
            try:
                if not is_registered:
                    await self._apply(await self._requests.register(self.broker_id, self._address))
                    is_registered = True
                    await self.beat()
                await self._apply(await self._requests.roles())
                self._answered(asked_at)
                complained = False
            except MQError as error:
                if not complained:
                    logger.warning("no role from the controller, retrying: %s", error)
                complained = True
                if isinstance(error, BrokerError) and error.code == 2010:
                    is_registered = False
            await self._rest(self._pause_seconds(complained))

    def _pause_seconds(self, is_failed: bool) -> float:
        broker = self._settings.broker
        if is_failed or self.known is None or self.known.master_id is None:
            return RETRY_SECONDS
        return min(broker.sync_metadata_period_ms, broker.controller_heartbeat_timeout_ms / 4) / 1000

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass

    async def _apply(self, news: RoleNews) -> None:
        async with self._changing:
            change = change_for(self.known, news, self.broker_id)
            if change is Change.ELECT:
                if self._settings.broker.async_learner:
                    return
                await self.beat()
                news = await self._requests.elect(self.broker_id)
                change = change_for(self.known, news, self.broker_id)
            await self._follow(change, news)

    async def _follow(self, change: Change, news: RoleNews) -> None:
        if change in (Change.NOTHING, Change.ELECT):
            return
        if change is Change.USE_SET:
            current = self._acks.sync_set
            if current.asked is not None or current.epoch >= news.set_epoch:
                return  # `_ask_for` will know which set is in force
            self._acks.use_set(SyncSet(members=news.members, epoch=news.set_epoch))
        elif change is Change.BECOME_MASTER:
            news = await self._alone(news)
            self._answered_at = self._now()
            await self._holder.become_master(
                self.broker_id, news.master_epoch, SyncSet(members=news.members, epoch=news.set_epoch)
            )
        else:
            await self._holder.become_slave(self.broker_id, news.master_epoch, news.master_address or "")
        self.known = news
        self.has_role.set()
        self._progress.set()

    async def _alone(self, news: RoleNews) -> RoleNews:
        """Return *news* with this broker as the only replica in sync: no other is connected when a mastership begins.

        After an election that is so. A master that started again, and was not missed, asks for it: what other replicas
        hold is not known, so that nothing could be confirmed."""
        only = frozenset({self.broker_id})
        if news.members in (only, frozenset()):
            return msgspec.structs.replace(news, members=only)
        answer = await self._requests.alter(self.broker_id, news.master_epoch, only, news.set_epoch)
        return msgspec.structs.replace(news, members=answer.members, set_epoch=answer.set_epoch)

    # The set

    async def _keep_set(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._settings.broker.check_sync_set_period_ms / 1000):
                    await self._progress.wait()
            except TimeoutError:
                pass
            self._progress.clear()
            known = self.known
            if known is None or not self.is_master:
                continue
            try:
                await self._look_at_set(known)
            except MQError as error:
                logger.warning("the replicas in sync stay as they are: %s", error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _look_at_set(self, known: RoleNews) -> None:
        acks, broker = self._acks, self._settings.broker
        if acks.sync_set.asked is not None:
            await self._apply_set_of_controller(known)
        current = acks.sync_set
        if current.asked is not None:
            return
        confirmed = acks.confirmed if acks.is_limited else max(self._end_offset() - NEAR_BYTES, 0)
        members = wanted_members(
            current.members,
            acks.replicas.values(),
            master_id=self.broker_id,
            confirmed=confirmed,
            epoch_start=acks.epoch_start,
            now=self._now(),
            silence_seconds=broker.not_caught_up_ms_max / 1000,
        )
        if members == current.members:
            return
        acks.use_set(SyncSet(members=current.members, epoch=current.epoch, asked=members))
        if not await self._hold_everything(members - current.members):
            acks.use_set(current)
            return
        await self._ask_for(known, members)

    async def _hold_everything(self, joining: frozenset[int]) -> bool:
        """Wait until the joining replicas hold what this broker has acknowledged without them."""
        barrier, deadline = self._end_offset(), self._now() + JOIN_SECONDS
        while self._now() < deadline:
            replicas = self._acks.replicas
            if all(each in replicas and replicas[each].acked >= barrier for each in joining):
                return True
            if not all(each in replicas for each in joining):
                return False
            await asyncio.sleep(0.002)
        return False

    async def _ask_for(self, known: RoleNews, members: frozenset[int]) -> None:
        """Ask the controller for the new set. Until it answers, the members of both sets must acknowledge."""
        acks = self._acks
        current = acks.sync_set
        while self.known is known or (self.known is not None and self.known.master_epoch == known.master_epoch):
            asked_at = self._now()
            try:
                answer = await self._requests.alter(self.broker_id, known.master_epoch, members, current.epoch)
            except BrokerError as error:
                logger.info("the controller refuses %s as replicas in sync: %s", sorted(members), error)
                await self._apply_set_of_controller(known)
                return
            except MQError as error:  # the answer may be lost: either set may be in force
                self._unsure_until = self._now() + UNSURE_SECONDS
                logger.warning("replicas in sync %s are not confirmed, retrying: %s", sorted(members), error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            self._answered(asked_at)
            if acks.sync_set.epoch <= answer.set_epoch and self.is_master:
                acks.use_set(SyncSet(members=answer.members, epoch=answer.set_epoch))
                logger.info("replicas in sync: %s", ", ".join(map(str, sorted(answer.members))))
            return

    async def _apply_set_of_controller(self, known: RoleNews) -> None:
        """Use the set that is in force. It is not known while a request without an answer may still be executed: until
        then the members of both sets must acknowledge."""
        news = await self._requests.roles()
        if news.master_epoch != known.master_epoch or news.master_id != self.broker_id:
            self._news.set()
        elif news.set_epoch > self._acks.sync_set.epoch or self._now() >= self._unsure_until:
            self._acks.use_set(SyncSet(members=news.members, epoch=news.set_epoch))
