"""Whatever is sent, however time passes, and whenever the broker is stopped or killed: every message is delivered once,
not before its time, soon after it, and in order within a level."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hanabi.broker.config import BrokerConfig
from hanabi.store.message_store import PutStatus
from tests.broker.delay.world import HOUR, SECOND, World, message

pytestmark = pytest.mark.long

LEVELS = "0s 1s 5s 30m"
DELAYS_MS = (0, 1_000, 5_000, 1_800_000)
MEMORY = Path("/dev/shm")  # noqa: S108 (a fresh directory inside it)
LATE_MS = 100  # a slot of the timer


class Delays(RuleBasedStateMachine):
    """The model is a list of what was sent and when it is due."""

    @initialize(reserved_hours=st.sampled_from([1, 72]))
    def begin(self, reserved_hours: int) -> None:
        self._directory = tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
        self._lives = 0
        self._due_ms: dict[bytes, int] = {}
        self._level_order: dict[int, list[bytes]] = {}
        self._failing = False
        broker = BrokerConfig(broker_name="a", message_delay_levels=LEVELS)
        self.world = World(self._next_home(), broker=broker, file_reserved_hours=reserved_hours)
        self._prepare()

    def _next_home(self) -> Path:
        self._lives += 1
        return Path(self._directory.name) / str(self._lives)

    def _prepare(self) -> None:
        self.world.refuse = lambda _: PutStatus.SERVICE_NOT_AVAILABLE if self._failing else None

    def _new_body(self, due_ms: int) -> bytes:
        body = b"%d" % len(self._due_ms)
        self._due_ms[body] = due_ms
        return body

    @rule(level=st.integers(1, 6), count=st.integers(1, 40))
    def send_with_a_level(self, level: int, count: int) -> None:
        for _ in range(count):
            stored_level = min(level, len(DELAYS_MS))
            body = self._new_body(self.world.clock.ms + DELAYS_MS[stored_level - 1])
            self._level_order.setdefault(stored_level, []).append(body)
            self.world.put(message(body, DELAY=level))

    @rule(
        delay_ms=st.one_of(
            st.integers(1, 2 * LATE_MS), st.integers(1, 3_000), st.integers(1, 3 * HOUR), st.just(20 * HOUR)
        ),
        count=st.integers(1, 40),
        apart_ms=st.sampled_from([0, 1, 90, 60_000]),
    )
    def send_with_a_time(self, delay_ms: int, count: int, apart_ms: int) -> None:
        for number in range(count):
            wait_ms = delay_ms + number * apart_ms
            body = self._new_body(self.world.clock.ms + wait_ms)
            self.world.put(message(body, TIMER_DELAY_MS=wait_ms))

    @rule(milliseconds=st.one_of(st.integers(0, 2 * LATE_MS), st.integers(0, 5 * SECOND), st.integers(0, 4 * HOUR)))
    def pass_time(self, milliseconds: int) -> None:
        self.world.clock.ms += milliseconds

    @rule(steps=st.integers(1, 4))
    def take_a_few_steps(self, steps: int) -> None:
        for _ in range(steps):
            self.world.levels.step()
            self.world.timer.step()

    @rule()
    def deliver(self) -> None:
        self.world.deliver()

    @rule(failing=st.booleans())
    def let_the_store_fail_or_not(self, failing: bool) -> None:
        self._failing = failing

    @rule(levels=st.booleans(), timer=st.booleans())
    def save(self, levels: bool, timer: bool) -> None:
        if levels:
            self.world.levels.save()
        if timer:
            self.world.timer.save()

    @rule()
    def stop_and_start(self) -> None:
        event("stopped")
        self.world = self.world.next_life()
        self._prepare()

    @rule()
    def kill_and_start(self) -> None:
        event("killed")
        self.world = self.world.killed(self._next_home())
        self._prepare()

    @rule()
    def lose_the_files_of_the_timer(self) -> None:
        event("lost")
        self.world.save()
        self.world.store.close()
        for path in (self.world.home / "timer").glob("*"):
            path.unlink()
        self.world = self.world.killed(self._next_home())
        self._prepare()

    @invariant()
    def nothing_comes_early_twice_or_out_of_order(self) -> None:
        if not hasattr(self, "world"):
            return
        records = self.world.read()
        bodies = [record.body for record in records]
        assert len(set(bodies)) == len(bodies)
        assert all(record.store_timestamp_ms >= self._due_ms[record.body] for record in records)
        for order in self._level_order.values():
            delivered = [body for body in bodies if body in set(order)]
            assert delivered == order[: len(delivered)]

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self._wait_for_everything()
        finally:
            self.world.store.close()
            self._directory.cleanup()

    def _wait_for_everything(self) -> None:
        self._failing = False
        self.world.clock.ms += 10 * SECOND  # longer than any pause after a failure
        self.world.deliver()
        late = {body for body, due_ms in self._due_ms.items() if due_ms + LATE_MS <= self.world.clock.ms}
        assert late <= set(self.world.bodies())
        for _ in range(120):
            self.world.pass_time(HOUR)
        self.nothing_comes_early_twice_or_out_of_order()
        assert set(self.world.bodies()) == set(self._due_ms)


TestDelays = Delays.TestCase
TestDelays.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
