"""One run of the simulation: three brokers, a controller, a producer, and faults in the order of a seed.

    World(seed).run()       raises Broken with the seed and the history; the same seed replays it

A crash that loses the unflushed end of a log is only injected where the settings promise to survive it: all other
replicas in sync live, are heard by the controller and hold what was acknowledged, and until the broker is back no other
fault happens.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final

from hanabi.broker.config import BrokerConfig
from hanabi.controller.config import ControllerConfig
from hanabi.controller.rules.state import BrokerSet
from hanabi.replication.rules.role_news import RoleNews
from tests.simulation import controllers
from tests.simulation.brokers import HOST, SimBroker
from tests.simulation.checks import Broken, Checks
from tests.simulation.controllers import SimController
from tests.simulation.logs import RECORD_BYTES
from tests.simulation.network import Network
from tests.simulation.virtual_loop import VirtualLoop

BROKERS: Final = 3
SECONDS: Final = 60.0  # of faults, in virtual time
RECOVERY_SECONDS: Final = 120.0  # then everything must be whole again
LOOK_SECONDS: Final = 0.1


class World:
    """The world of one seed."""

    def __init__(self, seed: int, *, seconds: float = SECONDS, unclean: bool = False) -> None:
        self._seed, self._seconds, self._unclean = seed, seconds, unclean
        self._random = random.Random(seed)
        self._network = Network(self._random)
        self._network.caller = HOST.get
        self.checks = Checks()
        self.steps = self.elections = 0
        self._sent = 0
        self._is_heard = False  # the controller hears all brokers

    def run(self) -> None:
        """Run to the end. Raise Broken at the first broken promise."""
        loop = VirtualLoop()
        loop.network = self._network
        try:
            loop.run_until_complete(self._run())
        except Broken as error:
            history = "\n".join(self.checks.history)
            raise Broken(f"seed {self._seed}: {error}\n{history}") from None
        finally:
            self.steps = loop.steps
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()

    async def _run(self) -> None:
        self._set_up()
        worker = asyncio.create_task(self._produce())
        faults = asyncio.create_task(self._injure())
        end = self._now() + self._seconds
        while self._now() < end:
            await self._look()
        faults.cancel()
        await self._heal()
        worker.cancel()
        await asyncio.sleep(5)
        self.checks.at_end()
        self._raise()

    def _set_up(self) -> None:
        config = ControllerConfig(election_wait_millis=3_000, enable_elect_unclean_master=self._unclean)
        self.controller = SimController(self._network, config, self._elected, self.checks.note)
        self.controller.start()
        settings = BrokerConfig(
            broker_name="broker-a",
            cluster_name="c",
            controller_mode_enabled=True,
            controller_addr=controllers.ADDRESS,
            controller_heartbeat_timeout_ms=3_000,
            sync_metadata_period_ms=1_000,
            check_sync_set_period_ms=1_000,
            heartbeat_interval_ms=500,
            housekeeping_interval_ms=3_000,
            connect_timeout_ms=1_000,
            reconnect_interval_ms=1_000,
            slave_timeout_ms=1_000,
            not_caught_up_ms_max=3_000,
            transfer_batch_bytes=40,
            all_ack_in_sync_state_set=True,
            in_sync_replicas=2,
            min_in_sync_replicas=2,
        )
        self.brokers = [
            SimBroker(number, settings, self._network, self.controller, self.checks, self._random)
            for number in range(1, BROKERS + 1)
        ]
        self.checks.brokers = self.brokers
        for broker in self.brokers:
            broker.drift = self._random.uniform(0.95, 1.05)
            broker.start()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    def _raise(self) -> None:
        if self.checks.failure is not None:
            raise self.checks.failure

    # The producer

    async def _produce(self) -> None:
        while True:
            await asyncio.sleep(self._random.expovariate(20))
            serving = [broker for broker in self.brokers if broker.is_serving]
            if serving:
                self._sent += 1
                self._random.choice(serving).put(b"%015d\n" % self._sent)

    # The controller

    def _elected(self, state: BrokerSet) -> None:
        self.elections += 1
        news = RoleNews(
            master_id=state.master_id,
            master_address=state.master_address,
            master_epoch=state.master_epoch,
            members=state.in_sync,
            set_epoch=state.sync_epoch,
        )
        for broker in self.brokers:
            if self._random.random() < 0.7 and self._network.is_whole(broker.host, controllers.HOST):
                asyncio.get_running_loop().call_later(self._network.delay(), broker.notified, news)

    async def _look(self) -> None:
        """Wait a moment, and compare the replicas in sync."""
        await asyncio.sleep(LOOK_SECONDS)
        state = await self.controller.state()
        if state is not None:
            by_id = {broker.broker_id: broker for broker in self.brokers}
            master = by_id.get(state.master_id or 0)
            if master is not None and master.is_serving and master.epochs.last == state.master_epoch:
                self.checks.in_sync(master, [by_id[number] for number in state.in_sync if number in by_id])
        self._raise()

    # Faults

    async def _injure(self) -> None:
        faults: list[tuple[int, Callable[[], object]]] = [
            (6, self._crash),
            (4, self._cut),
            (2, self._lose),
            (2, self._slow_down),
            (1, self._restart_controller),
        ]
        weights, chosen = [weight for weight, _ in faults], [fault for _, fault in faults]
        while True:
            await asyncio.sleep(self._random.expovariate(0.7))
            if not any(broker.is_lossy for broker in self.brokers):
                self._is_heard = await self.controller.hears({broker.broker_id for broker in self.brokers})
                self._random.choices(chosen, weights)[0]()

    def _later(self, mean: float, callback: Callable[..., object], *values: object) -> None:
        asyncio.get_running_loop().call_later(self._random.expovariate(1 / mean), callback, *values)

    def _crash(self) -> None:
        running = [broker for broker in self.brokers if broker.is_up]
        if running:
            broker = self._random.choice(running)
            is_lossy, is_noticed = self._may_lose(broker), self._random.random() < 0.5
            self.checks.note(f"{broker.number} crashes (noticed: {is_noticed}, loses its end: {is_lossy})")
            broker.crash(is_noticed=is_noticed, is_lossy=is_lossy)
            self._later(2.0, self._start, broker)

    def _may_lose(self, broker: SimBroker) -> bool:
        """Return whether *broker* may lose the end of its log now."""
        others = [each for each in self.brokers if each is not broker]
        is_calm = not self._network.cut and not self._network.loss and self._is_heard
        holds = all(each.is_up and each.log.end_offset >= self.checks.acked_end for each in others)
        return is_calm and holds and self._random.random() < 0.7

    def _start(self, broker: SimBroker) -> None:
        if not broker.is_up:
            broker.start()

    def _cut(self) -> None:
        """Cut one host off: from all others, from the controller, or from one peer."""
        hosts = [broker.host for broker in self.brokers]
        host = self._random.choice([*hosts, controllers.HOST])
        others = [each for each in (*hosts, controllers.HOST) if each != host]
        chosen = self._random.choice([others, [controllers.HOST], [self._random.choice(others)]])
        links = {frozenset((host, other)) for other in chosen if other != host}
        self.checks.note(f"links are cut: {[sorted(link) for link in links]}")
        self._network.cut |= links
        self._later(4.0, self._join, links)

    def _join(self, links: set[frozenset[str]]) -> None:
        self._network.cut -= links

    def _lose(self) -> None:
        self._network.loss = 0.3
        self._later(3.0, self._set_loss)

    def _set_loss(self) -> None:
        self._network.loss = 0.0

    def _slow_down(self) -> None:
        self._network.slowness = self._random.choice((0.02, 0.2))
        self._later(2.0, self._speed_up)

    def _speed_up(self) -> None:
        self._network.slowness = 0.002

    def _restart_controller(self) -> None:
        if self.controller.is_up:
            self.checks.note("the controller crashes")
            self.controller.stop()
            self._later(1.0, self._start_controller)

    def _start_controller(self) -> None:
        if not self.controller.is_up:
            self.controller.start()

    async def _heal(self) -> None:
        """End all faults, and wait until all replicas are in sync."""
        self._start_controller()
        self._network.cut.clear()
        self._set_loss()
        self._speed_up()
        for broker in self.brokers:
            self._start(broker)
        self.checks.note("all faults are over")
        end = self._now() + RECOVERY_SECONDS
        while self._now() < end:
            await self._look()
            state = await self.controller.state()
            if state is not None and state.master_id is not None and len(state.in_sync) == BROKERS:
                return
        self.checks.broken(f"no recovery in {RECOVERY_SECONDS} s: {await self.controller.state()}")
        self._raise()


def logs_of(world: World) -> int:
    """Return the number of records of the longest log."""
    return max(broker.log.end_offset for broker in world.brokers) // RECORD_BYTES
