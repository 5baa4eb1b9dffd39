"""Running push consumer, between start and shutdown: connects its parts.

    rebalance ──> assigned ──> pull loops ──> concurrent or orderly ──> listener
                     │                                │
                  locks, offsets                   send back

Names of topics and groups are those on the wire. Contains no logic of its own.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from hanabi.client.cluster.core import Core
from hanabi.client.consumer.config.push_config import RECONSUME_TIMES, PushConfig
from hanabi.client.consumer.consume_stats import ConsumeStats
from hanabi.client.consumer.group.broker_share import BrokerShare
from hanabi.client.consumer.group.rebalance import HANDOVER_S, Rebalance
from hanabi.client.consumer.group.start_checks import check_subscriptions
from hanabi.client.consumer.listening.concurrent import Concurrent
from hanabi.client.consumer.listening.consumption import Calls, Consumption, HookedCalls
from hanabi.client.consumer.listening.listener import DEAD_LETTER, Listener
from hanabi.client.consumer.listening.listener_runs import listener_runs
from hanabi.client.consumer.listening.orderly import Orderly
from hanabi.client.consumer.listening.send_back import FIRST_DELAY_LEVEL, SendBack
from hanabi.client.consumer.offsets.broadcast_offsets import BroadcastOffsets
from hanabi.client.consumer.offsets.offset_store import LocalOffsets, OffsetStore, RemoteOffsets
from hanabi.client.consumer.offsets.start_point import StartPoint
from hanabi.client.consumer.owned_queue import OwnedQueue
from hanabi.client.consumer.pull_request import Pulling, PullResult, restored, wanted
from hanabi.client.consumer.push.assigned_queues import AssignedQueues
from hanabi.client.consumer.push.member import PushMember
from hanabi.client.consumer.push.pop_loop import PopLoop
from hanabi.client.consumer.push.pop_queues import PopQueues
from hanabi.client.consumer.push.popped_queue import PoppedQueue
from hanabi.client.consumer.push.pull_loop import HOLD_S, PullLoop
from hanabi.client.consumer.push.queue_locks import QueueLocks
from hanabi.client.consumer.simple.popping import Popping
from hanabi.client.hooks import ConsumeHooks
from hanabi.client.namespace import unwrap, wrap
from hanabi.clock import wall_ms
from hanabi.errors import MQError
from hanabi.message import MessageQueue, StoredMessage
from hanabi.wire.bodies.heartbeat import SubscriptionData
from hanabi.wire.system_names import RETRY_PREFIX

logger = logging.getLogger(__name__)


class PushSession:
    """One run of a push consumer: construct, `open`, `close`. *subscriptions* are by topic and may change meanwhile."""

    def __init__(
        self,
        core: Core,
        group: str,
        settings: PushConfig,
        listener: Listener,
        *,
        ordered: bool,
        subscriptions: Mapping[str, SubscriptionData],
        hooks: ConsumeHooks,
    ) -> None:
        self._core, self._group, self._settings, self._ordered = core, group, settings, ordered
        self._namespace, self._subscriptions = core.config.namespace, subscriptions
        self._stats = ConsumeStats()
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._tasks: list[asyncio.Task[None]] = []
        self._offsets = self._make_offsets()
        self._pulling = Pulling(core, group)
        self._start_point = StartPoint(core, self._offsets, settings.consume_from)
        self._assigned = AssignedQueues(
            group,
            offsets=self._offsets,
            start_offset=self._start_point.offset,
            pull_loop=self._pull_loop,
            dropped=self._pulling.forget,
            changed=self.rebalance_soon,
            now_ms=wall_ms,
        )
        self._locks = self._make_locks() if ordered and not settings.broadcasting else None
        self._runs = listener_runs(listener, settings.concurrency, f"listener of {group}", owner=self)
        self._consumption = self._make_consumption(self._make_calls(hooks))
        self._assigned.connect(self._consumption, self._locks)
        self._pops = PopQueues(group, self._pop_loop)
        self._popping = Popping(core, group, ordered=False, starts_at_oldest=settings.consume_from == "first")
        asks_broker = settings.rebalance == "broker" and not ordered and not settings.broadcasting
        self._rebalance = Rebalance(
            core,
            group,
            topics=lambda: self._subscriptions,
            shares=self._assigned,
            allocate=settings.allocate,
            broadcasting=settings.broadcasting,
            handover_s=HANDOVER_S if self._locks is None else 0.0,  # a lock makes the pause unnecessary
            broker=(BrokerShare(core, group, settings.allocate), self._pops) if asks_broker else None,
        )
        self._member = PushMember(
            group,
            settings,
            ordered=ordered,
            subscriptions=lambda: self._subscriptions.values(),
            assigned=self._assigned,
            stats=self._stats,
            runs=self._runs,
            restored=partial(restored, namespace=self._namespace),
            rebalance_soon=self.rebalance_soon,
        )

    def _make_offsets(self) -> OffsetStore:
        if self._settings.broadcasting:
            if self._settings.broadcast_offsets == "broker":
                return BroadcastOffsets(self._core, self._group)
            return LocalOffsets.of(self._core.config, self._group)
        return RemoteOffsets(self._core, self._group)

    def _make_locks(self) -> QueueLocks:
        assigned = self._assigned
        return QueueLocks(
            self._core,
            self._group,
            owned=lambda: [*assigned.owned.values(), *assigned.leaving.values()],
            lost=self.rebalance_soon,
            now_ms=wall_ms,
        )

    def _make_calls(self, hooks: ConsumeHooks) -> Calls:
        hooked = None
        if hooks:
            group = unwrap(self._namespace, self._group)
            hooked = HookedCalls(hooks, group, self._core.client_id, timeout_s=self._settings.consume_timeout_s)
        return Calls(self._runs, self._stats, now=asyncio.get_running_loop().time, hooks=hooked)

    def _make_consumption(self, calls: Calls) -> Consumption:
        settings, clock = self._settings, asyncio.get_running_loop().time
        shared = not settings.broadcasting
        if self._ordered:
            return Orderly(
                self._group,
                settings,
                calls,
                needs_lock=shared,
                give_up=self._bury if shared else None,
                progressed=self._progressed,
                now=clock,
            )
        return Concurrent(
            self._group,
            settings,
            calls,
            retry=self._retry if shared else None,
            progressed=self._progressed,
            now=clock,
        )

    def _pull_loop(self, owned: OwnedQueue) -> PullLoop:
        return PullLoop(
            self._group,
            owned,
            pull=self._pull,
            subscription=lambda: self._subscriptions.get(owned.queue.topic),
            offsets=self._offsets,
            commits=not self._settings.broadcasting,
            limits=lambda: self._settings.limits(len(self._assigned.owned), ordered=self._ordered),
            resumed=self._resumed,
            deliver=self._deliver,
            progressed=self._progressed,
            stats=self._stats,
            interval_s=self._settings.pull_interval_s,
        )

    def _pop_loop(self, assigned: MessageQueue) -> PopLoop:
        settings = self._settings
        limit = settings.max_reconsume_times
        return PopLoop(
            self._group,
            assigned,
            self._popping,
            subscription=lambda: self._subscriptions.get(assigned.topic),
            wanted=wanted,
            deliver=self._deliver_popped,
            bury=self._bury_popped,
            resumed=self._resumed,
            stats=self._stats,
            batch=settings.pull_batch,
            invisible_s=settings.pop_invisible_s,
            held_max=settings.queue_messages_max,
            attempts_max=RECONSUME_TIMES if limit is None else limit,
        )

    # Between the parts

    def _deliver_popped(self, popped: PoppedQueue, messages: list[StoredMessage]) -> None:
        self._consumption.take(popped)
        self._deliver(popped, messages)

    async def _bury_popped(self, message: StoredMessage, topic: str, broker_name: str) -> None:
        await self._send_back().send_back(message, topic, broker_name, DEAD_LETTER)

    async def _pull(self, owned: OwnedQueue, subscription: SubscriptionData, commit_offset: int | None) -> PullResult:
        return await self._pulling.pull(
            owned.queue,
            owned.progress.next_offset,
            subscription,
            count=self._settings.pull_batch,
            commit_offset=commit_offset,
            hold_s=HOLD_S,
        )

    def _deliver(self, owned: OwnedQueue, messages: list[StoredMessage]) -> None:
        if self._namespace or owned.queue.topic.startswith(RETRY_PREFIX):
            messages = [restored(message, self._namespace) for message in messages]
        self._consumption.offer(owned, messages)

    def _progressed(self, owned: OwnedQueue) -> None:
        if isinstance(owned, PoppedQueue):
            owned.home.progressed(owned)
            return
        if not owned.forfeited:
            self._offsets.update(owned.queue, owned.progress.committable, increase_only=True)
        owned.changed()

    def _send_back(self) -> SendBack:
        limit = self._settings.max_reconsume_times
        return SendBack(
            self._core,
            self._group,
            RETRY_PREFIX + self._group,
            reconsume_times_max=RECONSUME_TIMES if limit is None else limit,
            unit_mode=self._settings.unit_mode,
        )

    async def _retry(self, owned: OwnedQueue, message: StoredMessage, delay_level: int) -> None:
        if isinstance(owned, PoppedQueue):
            await owned.home.retry(owned, message, delay_level)
            return
        topic = wrap(self._namespace, message.topic)
        await self._send_back().send_back(message, topic, owned.queue.broker_name, delay_level)

    async def _bury(self, owned: OwnedQueue, message: StoredMessage) -> None:
        limit = self._settings.max_reconsume_times
        await self._send_back().send_copy(
            message,
            wrap(self._namespace, message.topic),
            reconsume_times=max(message.reconsume_times, RECONSUME_TIMES if limit is None else limit),
            delay_level=FIRST_DELAY_LEVEL + message.reconsume_times,
        )

    # Open and close

    async def open(self) -> None:
        """Join the group. Refusals by brokers are raised; unreachable brokers are retried until they answer."""
        await self._offsets.load()
        await check_subscriptions(self._core, self._group, self._subscriptions.values())
        await self._core.add_consumer(self._group, self._member)
        self._begin("shares queues", self._rebalance.run)
        if self._locks is not None:
            self._core.on_loss.append(self._locks.broker_lost)
            self._begin("renews locks", self._locks.renew_forever)

    def _begin(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._tasks.append(asyncio.create_task(work(), name=f"{self._group} {name}"))

    async def close(self, seconds: float) -> bool:
        """Finish running work within *seconds*, save, and leave; False if listeners were left behind. When cancelled,
        stop waiting for listeners.
        """
        try:
            return await self._end(seconds)
        except asyncio.CancelledError:
            await self._end(0.0)
            raise
        finally:
            if self._locks is not None and self._locks.broker_lost in self._core.on_loss:
                self._core.on_loss.remove(self._locks.broker_lost)
            self._offsets.close()
            await self._core.remove_consumer(self._group)
            await self._keep_locks()

    async def _keep_locks(self) -> None:
        """Lock queues whose listener still runs again: Hanabi's brokers release the locks of a member that
        unregisters.
        """
        if self._locks is not None and (kept := self._assigned.kept_locked):
            await self._locks.lock(kept)
            logger.warning(
                "group %s: %d queues stay locked for a minute, as their listeners run", self._group, len(kept)
            )

    async def _end(self, seconds: float) -> bool:
        self._consumption.pause()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._pops.stop()
        in_time = await self._assigned.close(seconds)
        await self._pops.close()
        return in_time

    # While running

    def rebalance_soon(self) -> None:
        self._rebalance.soon()

    async def subscriptions_changed(self) -> None:
        """Send the subscriptions to the brokers, and rebalance new topics."""
        with contextlib.suppress(MQError):  # the next heartbeat carries it, and the core has logged the failure
            await self._core.heartbeat_now()
        self.rebalance_soon()

    def pause(self) -> None:
        self._resumed.clear()
        self._consumption.pause()

    def resume(self) -> None:
        self._resumed.set()
        self._consumption.resume()

    @property
    def queues(self) -> list[MessageQueue]:
        """Return the queues that are owned now; a queue id of -1 is any queue of a broker, from which is popped."""
        return sorted([*self._assigned.owned, *self._pops.queues])
