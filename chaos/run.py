"""One run: start the world, let traffic flow, play the plan, heal everything, wait until all has arrived, judge."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from chaos.checks.ledger import Ledger
from chaos.checks.recovery import Pulse
from chaos.faults import Played, play
from chaos.history import Follower
from chaos.observing import observe
from chaos.plan import BROKERS, Fault, FaultKind, make_plan
from chaos.report import Report, machine, played_fault
from chaos.servers import Died
from chaos.traffic import Kind
from chaos.verdict import judge
from chaos.world import World, world

PRODUCERS: Final = 2
CONSUMERS: Final = 2
FIRST_S: Final = 60.0  # until every kind of traffic has arrived once
LOOK_S: Final = 0.5
SILENCE_S: Final = 60.0  # nothing new for so long, and something missing: it will not come any more
LINGER_S: Final = 8.0  # for what should not come to come: longer than a check of a transaction takes

Tell = Callable[[str], None]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was asked to be."""

    seed: int
    seconds: float
    flush: str = "SYNC_FLUSH"
    kinds: tuple[Kind, ...] = tuple(Kind)
    faults: tuple[FaultKind, ...] = tuple(FaultKind)
    plan: dict[str, tuple[Fault, ...]] | None = None  # instead of one made by the seed
    linger_s: float = LINGER_S


async def run(settings: Settings, home: Path, tell: Tell) -> Report:
    """*home* gets the stores, logs and histories, and is the caller's to remove."""
    began = time.monotonic()
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    minutes = settings.seconds / 60
    troubles: list[str] = []
    async with world(home, settings.kinds, settings.flush, minutes) as running:
        tell(f"servers are ready; logs and histories are in {home}")
        follower, ledger = Follower(running.history), Ledger()
        watching = asyncio.create_task(
            observe(running.history / "observer.jsonl", running.namesrv, running.addresses, settings.kinds)
        )
        try:
            for _ in range(PRODUCERS):
                running.producers.start()
            for _ in range(CONSUMERS):
                running.consumers.start()
            await _first_of_each(follower, ledger, settings.kinds)
            start = time.monotonic()
            played, skipped = await _play_all(settings, running, start, tell, troubles)
            end = time.monotonic()
            running.producers.stop_sending()
            tell("all faults are healed; waiting for what is on its way")
            await _drain(follower, ledger, running, troubles)
            drained = time.monotonic()
            await asyncio.sleep(settings.linger_s)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        ledger.take(follower.new())
        complaints = [line for server in running.servers.values() for line in server.complaints()]
        kills = {name: running.servers[name].kills for name in BROKERS}
    verdict = judge(
        ledger,
        kinds=settings.kinds,
        kills=kills,
        clock_wrong=_clock_wrong(played),
        complaints=complaints,
        troubles=troubles,
    )
    pulse = Pulse(ledger)
    return Report(
        seed=settings.seed,
        date=date,
        minutes=minutes,
        flush=settings.flush,
        machine=machine(),
        holds=verdict.holds,
        seconds=round(time.monotonic() - began, 1),
        drain_s=round(drained - end, 1),
        longest_silence_s=round(pulse.longest_silence_s(start, end), 2),
        skipped=skipped,
        verdict=verdict,
        faults=[
            played_fault(lane, each, start, pulse.after(each.ended, _touched(each.fault))) for lane, each in played
        ],
    )


def _touched(fault: Fault) -> Sequence[str]:
    return (fault.target,) if fault.target in BROKERS else BROKERS


def _clock_wrong(played: Sequence[tuple[str, Played]]) -> dict[str, list[tuple[float, float]]]:
    wrong: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for _, each in played:
        if each.fault.kind is FaultKind.CLOCK_JUMP:
            wrong[each.fault.target].append((each.began, each.ended))
    return wrong


async def _first_of_each(follower: Follower, ledger: Ledger, kinds: Collection[Kind]) -> None:
    """Until something of every kind has arrived: before that, faults would hit nothing."""
    deadline = time.monotonic() + FIRST_S
    while not set(kinds) <= {label.kind for label in ledger.accepted}:
        if time.monotonic() > deadline:
            arrived = ", ".join(sorted({label.kind for label in ledger.accepted})) or "nothing"
            raise Died(f"after {FIRST_S:.0f} s without any fault, only this had arrived: {arrived}")
        await asyncio.sleep(LOOK_S)
        ledger.take(follower.new())


async def _play_all(
    settings: Settings, running: World, start: float, tell: Tell, troubles: list[str]
) -> tuple[list[tuple[str, Played]], dict[str, str]]:
    """Return every lane, until the time is over. A fault that is late because the one before it took long is played
    late; one whose turn comes after the end is left out, and that is told."""
    plan = settings.plan or make_plan(settings.seed, settings.seconds, settings.faults)
    played: list[tuple[str, Played]] = []
    skipped: dict[str, str] = {}

    async def lane(name: str, faults: Sequence[Fault]) -> None:
        for fault in faults:
            await asyncio.sleep(max(0.0, start + fault.at_s - time.monotonic()))
            if time.monotonic() > start + settings.seconds:
                skipped[f"the last faults of {name}"] = "servers took so long to come back that the time was over"
                return
            if (why := running.impossible.get(fault.kind)) is not None:
                skipped[str(fault.kind)] = why
                continue
            text = f"{fault.kind}: {fault.target} ({fault.seconds:.1f} s, {fault.amount:g})"
            tell(f"{time.monotonic() - start:7.1f} s  {text}")
            try:
                played.append((name, await play(fault, running)))
                running.check_running()
            except Died as error:
                troubles.append(str(error))
                tell(f"TROUBLE: {error}")
                if fault.target in running.servers and not running.servers[fault.target].is_running:
                    await asyncio.to_thread(running.servers[fault.target].start)

    async with asyncio.TaskGroup() as lanes:
        for name, faults in plan.items():
            lanes.create_task(lane(name, faults))
    await asyncio.sleep(max(0.0, start + settings.seconds - time.monotonic()))
    return played, skipped


async def _drain(follower: Follower, ledger: Ledger, running: World, troubles: list[str]) -> None:
    """Until nothing that was acknowledged is missing, or nothing comes any more."""
    last_news = time.monotonic()
    missing = -1
    while missing != 0 and time.monotonic() - last_news < SILENCE_S:
        await asyncio.sleep(LOOK_S)
        ledger.take(follower.new())
        if (now := len(ledger.missing())) != missing:
            missing, last_news = now, time.monotonic()
    for server in running.servers.values():
        try:
            server.check_running()
        except Died as error:
            troubles.append(str(error))
    try:
        running.check_running()
    except Died as error:
        troubles.append(str(error))
