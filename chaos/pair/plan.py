"""Faults of a pair, by a seed. Pure."""

import random
from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple


class PairFault(StrEnum):
    """What happens to one of the two, or to the link between them."""

    MASTER_KILL = "master killed"
    SLAVE_KILL = "slave killed"
    BOTH_KILL = "both killed"
    MASTER_PAUSE = "master stopped and continued"
    SLAVE_PAUSE = "slave stopped and continued"
    LINK_CUT = "link cut"
    LINK_DELAY = "link delayed"
    LINK_MUTE = "link half-open"  # connections stay, bytes are lost


SECONDS: Final = {
    PairFault.MASTER_KILL: (0.1, 2.0),
    PairFault.SLAVE_KILL: (0.1, 3.0),
    PairFault.BOTH_KILL: (0.1, 2.0),
    PairFault.MASTER_PAUSE: (0.2, 3.0),
    PairFault.SLAVE_PAUSE: (0.2, 4.0),
    PairFault.LINK_CUT: (0.1, 3.0),
    PairFault.LINK_DELAY: (0.5, 4.0),
    PairFault.LINK_MUTE: (0.5, 4.0),
}
PAUSES_S: Final = (0.5, 2.5)


class Planned(NamedTuple):
    """A fault, how long it lasts, and the pause before it."""

    kind: PairFault
    seconds: float
    after_s: float


def faults(seed: int) -> Iterator[Planned]:
    """Yield faults without end. All kinds come once before any comes twice."""
    chance = random.Random(seed)
    while True:
        kinds = list(PairFault)
        chance.shuffle(kinds)
        for kind in kinds:
            yield Planned(kind, chance.uniform(*SECONDS[kind]), chance.uniform(*PAUSES_S))
