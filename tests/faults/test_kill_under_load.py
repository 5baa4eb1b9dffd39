"""Kill -9 a broker, its name server and consumers while messages flow, and start them again: what was acknowledged is
consumed, and what is consumed twice is no more than "at least once" allows.
"""

import asyncio
import itertools
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from hanabi.client.producer.producer import Producer
from hanabi.testing.waiting import eventually
from tests.faults.client_load import DEADLINE_S, SENDERS, Consumption, Load
from tests.faults.consuming import TOPIC
from tests.faults.our_servers import OurServers
from tests.interop.processes import ServerProcess

# Consumers tell the broker every half second how far they are, it writes that down every half second, and a machine
# that is busy is late with both.
UNSAVED_S = 8.0
# One that joins, some time after its start, takes queues over, with what their owner has consumed and not saved.
JOINING_S = 30.0


class Consumers:
    """Processes that consume into one file."""

    def __init__(self, namesrv: str, home: Path) -> None:
        self._namesrv, self._home = namesrv, home
        self._file = home / "consumed"
        self._started = 0
        self.running: list[ServerProcess] = []
        self.starts: list[float] = []

    def start(self) -> None:
        self._started += 1
        self.starts.append(time.time())
        name = f"consumer-{self._started}"
        script = Path(__file__).with_name("consuming.py")
        command = [sys.executable, str(script), self._namesrv, str(self._file), name]
        self.running.append(ServerProcess(name, command, self._home / f"{name}.log", env=dict(os.environ)))

    def kill_one(self) -> None:
        self.running.pop(0).kill()

    def consumed(self) -> list[Consumption]:
        whole, _, _ = (self._file.read_text() if self._file.exists() else "").rpartition("\n")
        rows = (line.split(" ", 5) for line in whole.split("\n") if line)
        return [
            Consumption(float(moment), name, (int(queue), int(offset)), message_id, body)
            for moment, name, queue, offset, message_id, body in rows
        ]

    def stop(self) -> None:
        for process in self.running:
            process.kill()


@contextmanager
def everything(home: Path) -> Iterator[tuple[OurServers, Consumers]]:
    with ExitStack() as stack:
        cluster = OurServers(home / "cluster")
        stack.callback(lambda: cluster.process.kill())
        cluster.wait_ready()
        consumers = Consumers(cluster.namesrv, home)
        stack.callback(consumers.stop)
        yield cluster, consumers


class Story(NamedTuple):
    load: Load
    consumed: list[Consumption]
    kills: list[float]
    starts: list[float]  # of consumers


async def play(cluster: OurServers, consumers: Consumers) -> Story:
    """Kill consumers, the servers, and both at once; then wait until everything that was acknowledged is consumed."""
    kills: list[float] = []

    async def in_thread(work: Callable[[], None]) -> None:
        await asyncio.to_thread(work)

    def kill_servers() -> None:
        kills.append(time.time())
        cluster.process.kill()

    def kill_consumer() -> None:
        kills.append(time.time())
        consumers.kill_one()

    async with Producer("Loading", namesrv=cluster.namesrv) as producer:
        load = Load(producer, TOPIC)
        work = asyncio.create_task(load.run())
        try:
            await eventually(lambda: len(load.acknowledged) > 10, "the first messages", seconds=DEADLINE_S)
            consumers.start()
            consumers.start()
            await progress(consumers, load)
            kill_consumer()
            consumers.start()
            await progress(consumers, load)
            kill_servers()
            await in_thread(cluster.start_again)
            await progress(consumers, load)
            kill_consumer()
            kill_servers()
            await in_thread(cluster.start_again)
            consumers.start()
            await progress(consumers, load)
            kill_consumer()
            await asyncio.sleep(0.5)  # one is alone, and takes over what the dead one had
            consumers.start()
            await progress(consumers, load)
        finally:
            load.stop()
            await work
    wanted = set(load.acknowledged)
    await eventually(
        lambda: wanted <= {each.body for each in consumers.consumed()},
        "everything acknowledged is consumed",
        seconds=DEADLINE_S,
    )
    return Story(load, consumers.consumed(), kills, consumers.starts)


async def progress(consumers: Consumers, load: Load) -> None:
    """Wait until messages were sent, and consumed by each that runs, for a while."""
    sent, got = len(load.acknowledged), len(consumers.consumed())
    running = {process.name for process in consumers.running}
    since = time.time()

    def went_on() -> bool:
        seen = consumers.consumed()[got:]
        return len(load.acknowledged) >= sent + 200 and len(seen) >= 200 and {each.consumer for each in seen} >= running

    await eventually(went_on, f"200 messages through all of {sorted(running)}", seconds=DEADLINE_S)
    await asyncio.sleep(max(0.0, 1.0 - (time.time() - since)))


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    with everything(tmp_path_factory.mktemp("kill")) as (cluster, consumers):
        return asyncio.run(play(cluster, consumers))


def test_nothing_that_was_acknowledged_is_lost(story: Story) -> None:
    assert set(story.load.acknowledged) <= {each.body for each in story.consumed}


def test_nothing_is_consumed_that_was_never_stored(story: Story) -> None:
    consumed = {each.body for each in story.consumed}
    assert consumed <= {*story.load.acknowledged, *story.load.unknown}
    assert not consumed & set(story.load.refused)


def test_what_is_consumed_twice_was_not_saved_when_its_queue_changed_hands(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    # A second delivery of one place in a queue comes after somebody was killed or has joined, and only of what was new
    # then.
    by_place: dict[tuple[int, int], list[Consumption]] = defaultdict(list)
    by_body: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for each in story.consumed:
        by_place[each.place].append(each)
        by_body[each.body].add(each.place)
    again = [deliveries for deliveries in by_place.values() if len(deliveries) > 1]
    twice_stored = sum(len(places) - 1 for places in by_body.values())
    load = story.load
    with capsys.disabled():
        print(  # noqa: T201
            f"\n{len(story.kills)} kills: {len(load.acknowledged)} acknowledged, {len(load.refused)} refused,"
            f" {len(load.unknown)} without an answer; {sum(map(len, again)) - len(again)} delivered again,"
            f" {twice_stored} stored twice by a second try"
        )
    for deliveries in again:
        for first, second in itertools.pairwise(deliveries):
            reasons = [kill for kill in story.kills if first.time - UNSAVED_S < kill < second.time]
            reasons += [start for start in story.starts if abs(start - second.time) < JOINING_S]
            assert reasons, f"{second} came again without a reason, after {first}; {story.kills=}, {story.starts=}"
            assert second.time - first.time < UNSAVED_S + JOINING_S, f"{second} was consumed long before: {first}"
    # A message is stored twice only if an answer was lost: at most those on their way at a kill of the servers.
    assert twice_stored <= 2 * SENDERS * len(story.kills)
