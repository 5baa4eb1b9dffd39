"""Which fault happens when: a pure function of a seed. Knows nothing of processes, sockets or what a fault does.

Three lanes run beside each other, so that faults of servers, of the network and of clients overlap as they like; in one
lane a fault begins when the one before it has ended and a pause is over. Each lane deals the kinds of its faults like
cards: all of them come once before any comes twice.
"""

import random
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec


class FaultKind(StrEnum):
    # servers
    BROKER_KILL = "broker killed"
    BROKER_DOWN = "broker down for long"  # the other one has to do
    BROKER_PAUSE = "broker stopped and continued"
    BROKER_RESTART = "broker restarted in order"
    RECOVERY_KILL = "broker killed during recovery"
    NAMESRV_KILL = "name server killed"
    DISK_FULL = "disk full"
    CLOCK_JUMP = "clock jumped"
    DISK_SLOW = "disk slow"
    FLUSH_FAILED = "flush failed"
    NO_THREADS = "no threads"
    NO_FILES = "no files and no maps"
    MEMORY_LIMIT = "hardly any memory"
    # network
    CUT = "connections cut"
    DELAY = "connections delayed"
    STALL = "connections stalled"
    # clients
    CONSUMER_JOIN = "consumer joined"
    CONSUMER_LEAVE = "consumer left"
    CONSUMER_KILL = "consumer killed"
    CONSUMER_PAUSE = "consumer stopped and continued"
    PRODUCER_KILL = "producer killed"


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault. *target* is a broker's name, "namesrv", or which of the clients that run then.

    *amount* is the latency in seconds, the jump of the clock in seconds, how often recovery is killed, how long each
    sync of a slow disk takes, or how many MiB a broker may have beside what it has.
    """

    at_s: float
    kind: FaultKind
    target: str
    seconds: float
    amount: float = 0.0


class Shape(NamedTuple):
    """How long a fault of a kind lasts, and how much of it there is: both between two bounds."""

    seconds: tuple[float, float]
    amount: tuple[float, float] = (0.0, 0.0)


BROKERS: Final = ("broker-a", "broker-b")
DISK_BROKER: Final = "broker-b"  # the one whose disk is small
MEMORY_BROKER: Final = "broker-a"  # the other one: the small disk lies in memory, which cannot be freed
NAMESRV: Final = "namesrv"
PAUSES_S: Final = (1.5, 5.0)
CLIENT_CHOICES: Final = 1_000

SHAPES: Final = {
    FaultKind.BROKER_KILL: Shape((0.0, 2.0)),
    FaultKind.BROKER_DOWN: Shape((10.0, 25.0)),
    FaultKind.BROKER_PAUSE: Shape((1.0, 12.0)),
    FaultKind.BROKER_RESTART: Shape((0.0, 1.0)),
    FaultKind.RECOVERY_KILL: Shape((0.05, 0.6), (1.0, 3.0)),  # seconds from start to kill, how often
    FaultKind.NAMESRV_KILL: Shape((3.0, 20.0)),
    FaultKind.DISK_FULL: Shape((4.0, 12.0)),
    FaultKind.CLOCK_JUMP: Shape((3.0, 12.0), (-600.0, 600.0)),
    FaultKind.DISK_SLOW: Shape((3.0, 10.0), (0.05, 1.5)),
    FaultKind.FLUSH_FAILED: Shape((0.0, 3.0)),  # until an operator restarts the broker
    FaultKind.NO_THREADS: Shape((2.0, 8.0)),
    FaultKind.NO_FILES: Shape((2.0, 8.0)),
    FaultKind.MEMORY_LIMIT: Shape((2.0, 8.0), (4.0, 40.0)),  # MiB beside what it has
    FaultKind.CUT: Shape((0.0, 6.0)),
    FaultKind.DELAY: Shape((3.0, 10.0), (0.02, 0.7)),
    FaultKind.STALL: Shape((1.0, 8.0)),
    FaultKind.CONSUMER_JOIN: Shape((6.0, 20.0)),  # and leaves again
    FaultKind.CONSUMER_LEAVE: Shape((2.0, 8.0)),  # until another one comes
    FaultKind.CONSUMER_KILL: Shape((0.0, 8.0)),
    FaultKind.CONSUMER_PAUSE: Shape((1.0, 15.0)),
    FaultKind.PRODUCER_KILL: Shape((0.0, 4.0)),
}
NEED_SHIM: Final = (FaultKind.DISK_SLOW, FaultKind.FLUSH_FAILED, FaultKind.NO_THREADS, FaultKind.NO_FILES)
LANES: Final[Mapping[str, tuple[FaultKind, ...]]] = {
    "servers": tuple(FaultKind)[:13],
    "network": tuple(FaultKind)[13:16],
    "clients": tuple(FaultKind)[16:],
}


def make_plan(
    seed: int, seconds: float, kinds: Collection[FaultKind] = tuple(FaultKind)
) -> dict[str, tuple[Fault, ...]]:
    """Return the faults of a run of so many *seconds*, by lane. The same arguments give the same plan."""
    return {
        lane: tuple(_lane(random.Random(f"{seed}/{lane}"), seconds, [kind for kind in of_lane if kind in kinds]))
        for lane, of_lane in LANES.items()
    }


def _lane(dice: random.Random, seconds: float, kinds: list[FaultKind]) -> list[Fault]:
    faults: list[Fault] = []
    deck: list[FaultKind] = []
    at = dice.uniform(*PAUSES_S)
    while kinds and at < seconds:
        if not deck:
            deck = dice.sample(kinds, len(kinds))
        faults.append(_fault(dice, at, deck.pop()))
        at += faults[-1].seconds + dice.uniform(*PAUSES_S)
    return faults


def _fault(dice: random.Random, at: float, kind: FaultKind) -> Fault:
    shape = SHAPES[kind]
    return Fault(
        at_s=round(at, 3),
        kind=kind,
        target=_target(dice, kind),
        seconds=round(dice.uniform(*shape.seconds), 3),
        amount=round(dice.uniform(*shape.amount), 3),
    )


def _target(dice: random.Random, kind: FaultKind) -> str:
    if kind is FaultKind.NAMESRV_KILL:
        return NAMESRV
    if kind is FaultKind.DISK_FULL:
        return DISK_BROKER
    if kind is FaultKind.MEMORY_LIMIT:
        return MEMORY_BROKER
    if kind in LANES["network"]:
        return dice.choice((*BROKERS, *BROKERS, NAMESRV))
    if kind in LANES["servers"]:
        return dice.choice(BROKERS)
    return str(dice.randrange(CLIENT_CHOICES))  # which of those that run: this number, modulo how many
