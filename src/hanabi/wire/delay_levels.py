"""The delay levels: `messageDelayLevel` as numbers.

    "1s 5s 10s 30s 1m ... 2h"       level 1 waits one second, level 2 five, ...; units s, m, h and d

Agrees with ScheduleMessageService.parseDelayLevel and computeDeliverTimestamp. A text that Java logs and ignores stops
our start. Pure: no clock, no store.
"""

import re
from typing import Final, NamedTuple

from hanabi.errors import ConfigError

_KEY: Final = "messageDelayLevel"
_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEVEL: Final = re.compile(r"([0-9]{1,10})([smhd])", re.ASCII)
_LEVELS_MAX: Final = 1_000  # each is a queue
_UNKNOWN_LEVEL_MS: Final = 1_000


class DelayLevels(NamedTuple):
    """The delay of each level, level 1 first."""

    delays_ms: tuple[int, ...]

    @property
    def highest(self) -> int:
        return len(self.delays_ms)

    def delay_ms(self, level: int) -> int | None:
        """Return the delay of *level*; None if there is no such level."""
        return self.delays_ms[level - 1] if 1 <= level <= len(self.delays_ms) else None

    def deliver_time_ms(self, level: int, store_ms: int) -> int:
        """Return the due time of a message of *level* that was stored at *store_ms*: the store's hook.

        A level above the highest counts as the highest, as where such a message is diverted.
        """
        delay_ms = self.delay_ms(min(level, len(self.delays_ms)))
        return store_ms + (_UNKNOWN_LEVEL_MS if delay_ms is None else delay_ms)


def parse_delay_levels(text: str) -> DelayLevels:
    """Return the levels in *text*; ConfigError names the key and the fault."""
    words = text.split()
    if not 0 < len(words) <= _LEVELS_MAX:
        raise ConfigError(f"{_KEY} must have between 1 and {_LEVELS_MAX} delays such as 1s 5m 2h, not {len(words)}")
    delays_ms: list[int] = []
    for word in words:
        match = _LEVEL.fullmatch(word)
        if match is None:
            raise ConfigError(f"{_KEY} must be delays such as 1s 5m 2h 1d with spaces between them, not {word[:50]!r}")
        delays_ms.append(int(match[1]) * _UNIT_MS[match[2]])
    return DelayLevels(tuple(delays_ms))


DEFAULT_LEVELS: Final = parse_delay_levels("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
