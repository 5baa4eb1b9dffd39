"""Sampler of all tallies, a tenth of them each second, so that 40,000 topics cause no pause.

Agrees with Java's StatsItemSet in the spacing: each tally every 10 s for the minute, every 10 min for the hour, every
hour for the day.
"""

from collections.abc import Hashable
from typing import Final, TypeVar

from hanabi.broker.stats.tally import Tally, Window

_PHASES: Final = 10
_STEP_MS: Final = Window.MINUTE.step_ms // _PHASES
_ROUNDS_AN_HOUR_SAMPLE: Final = Window.HOUR.step_ms // Window.MINUTE.step_ms
_ROUNDS_A_DAY_SAMPLE: Final = Window.DAY.step_ms // Window.MINUTE.step_ms

KEYS_MAX: Final = 100_000  # tallies of one kind: names chosen by peers must not fill the memory

K = TypeVar("K", bound=Hashable)


class Sampler:
    """Registry of all live tallies, and the sampling schedule."""

    def __init__(self, now_ms: int) -> None:
        self._due_ms = now_ms + _STEP_MS
        self._step = 0
        self._phases: tuple[set[Tally], ...] = tuple(set() for _ in range(_PHASES))

    def new_tally(self) -> Tally:
        """Return a tally that is sampled from now on. It joins the smallest tenth."""
        phase = min(range(_PHASES), key=lambda index: len(self._phases[index]))
        tally = Tally(phase)
        self._phases[phase].add(tally)
        return tally

    def drop(self, tally: Tally) -> None:
        """Stop sampling it."""
        self._phases[tally.phase].discard(tally)

    def tick(self, now_ms: int) -> None:
        """Take the samples that are due. Call it about once a second; missed samples are not made up."""
        if self._due_ms - now_ms > _STEP_MS:  # the clock was set back
            self._due_ms = now_ms
        for _ in range(_PHASES):
            if now_ms < self._due_ms:
                return
            self._sample_next(now_ms)
            self._due_ms += _STEP_MS
        if now_ms >= self._due_ms:  # the process slept, or the clock was set forward
            self._due_ms = now_ms + _STEP_MS

    def _sample_next(self, now_ms: int) -> None:
        rounds, phase = divmod(self._step, _PHASES)
        self._step += 1
        windows = [Window.MINUTE]
        if rounds % _ROUNDS_AN_HOUR_SAMPLE == 0:
            windows.append(Window.HOUR)
        if rounds % _ROUNDS_A_DAY_SAMPLE == 0:
            windows.append(Window.DAY)
        for tally in self._phases[phase]:
            for window in windows:
                tally.sample(window, now_ms)


class Tallies(dict[K, Tally]):
    """Tallies by key; `tallies[key]` creates one for a new key. Beyond `keys_max`, new keys share a hidden one."""

    def __init__(self, sampler: Sampler, keys_max: int = KEYS_MAX) -> None:
        super().__init__()
        self._sampler = sampler
        self._keys_max = keys_max
        self._overflow = Tally()

    def __missing__(self, key: K) -> Tally:
        if len(self) >= self._keys_max:
            return self._overflow
        tally = self[key] = self._sampler.new_tally()
        return tally

    def drop(self, key: K) -> None:
        """Remove one key, if it is there."""
        tally = self.pop(key, None)
        if tally is not None:
            self._sampler.drop(tally)
