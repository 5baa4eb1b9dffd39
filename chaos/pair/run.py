"""Rounds of chaos for a pair, and their figures."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from chaos.pair.pair import TOPIC, Pair, make_topic, running_pair
from chaos.pair.plan import Planned, faults
from chaos.pair.sending import Load
from hanabi.store.inspection.home import StoreHome
from hanabi.store.inspection.messages import Wanted, find_messages

ROUND_S: Final = 30.0
SYNC: Final = "SYNC_MASTER"

Tell = Callable[[str], None]


class PairSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was asked to be."""

    seed: int
    seconds: float
    role: str = SYNC
    round_s: float = ROUND_S


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one round. `lost` were acknowledged with SEND_OK and are not in the slave's log."""

    faults: list[str]
    statuses: dict[str, int]
    acknowledged: int
    lost: int
    reused: int  # queue offsets that were given to acknowledged messages twice


class PairReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one run."""

    settings: PairSettings
    rounds: list[Round]
    complaints: list[str]

    @property
    def holds(self) -> bool:
        """SYNC_MASTER loses nothing and reuses no offset. ASYNC_MASTER may: it is counted."""
        is_sync = self.settings.role == SYNC
        return not self.complaints and not (is_sync and any(each.lost or each.reused for each in self.rounds))


async def run(settings: PairSettings, home: Path, tell: Tell) -> PairReport:
    """Play rounds until the time is over, at least one. *home* is the caller's to remove."""
    ending = time.monotonic() + settings.seconds
    planned = faults(settings.seed)
    rounds: list[Round] = []
    places: set[tuple[int, int]] = set()
    complaints: list[str] = []
    async with running_pair(home, settings.role) as pair:
        while True:
            length = min(settings.round_s, max(ending - time.monotonic(), 1.0))
            rounds.append(await _round(pair, len(rounds), length, planned, places, tell))
            complaints += [line for server in (pair.master, pair.slave) for line in server.complaints()]
            if time.monotonic() >= ending:
                return PairReport(settings=settings, rounds=rounds, complaints=complaints)
            await pair.promote()


async def _round(
    pair: Pair, number: int, seconds: float, planned: Iterator[Planned], places: set[tuple[int, int]], tell: Tell
) -> Round:
    await make_topic(pair.namesrv)
    load = Load(f"r{number}")
    sending = asyncio.create_task(load.run(pair.namesrv))
    played = await _play(pair, planned, time.monotonic() + seconds, tell)
    await pair.lose_master()
    load.is_stopped = True
    await sending
    kept = await asyncio.to_thread(heads_in, pair.slave_home)
    given = Counter(load.safe.values())
    reused = sum(count - 1 for count in given.values()) + len(places & given.keys())
    places |= given.keys()
    lost = len(load.safe.keys() - kept)
    tell(f"round {number}: {len(played)} faults, {len(load.safe)} acknowledged, {lost} lost, {dict(load.statuses)}")
    return Round(faults=played, statuses=dict(load.statuses), acknowledged=len(load.safe), lost=lost, reused=reused)


async def _play(pair: Pair, planned: Iterator[Planned], until: float, tell: Tell) -> list[str]:
    played: list[str] = []
    while time.monotonic() < until:
        fault = next(planned)
        await asyncio.sleep(fault.after_s)
        tell(f"  {fault.kind} ({fault.seconds:.1f} s)")
        await pair.play(fault)
        played.append(fault.kind.value)
    return played


def heads_in(home: Path) -> set[bytes]:
    """Return the heads of all whole messages of the topic in a store."""
    found = find_messages(StoreHome.open(home), Wanted(), lambda _: None)
    return {record.body.partition(b";")[0] + b";" for record in found if record.topic == TOPIC}
