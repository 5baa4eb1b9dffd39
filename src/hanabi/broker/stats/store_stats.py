"""Statistics of the store as `mqadmin brokerStatus` shows them: totals, rates, put durations.

Agrees with Java's StoreStatsService and BrokerStats in keys, texts and windows (10 s, 1 min, 10 min from samples of a
second each). Three things are better: totals are 0 when nothing was stored (Java says 1), rates exist from the first
sample on (Java leaves the text empty), and so does the distribution of durations (Java says "null").
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import accumulate
from typing import Final, NamedTuple

_SAMPLE_MS: Final = 1_000
_SAMPLES_MAX: Final = 601
_RATES_OVER_SECONDS: Final = (10, 60, 600)
_TURN_MS: Final = 60_000  # the distribution shown is that of the last whole minute

CLASS_LIMITS_MS: Final = (1, 10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000)
_CLASS_NAMES: Final = (
    *("[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]", "[500ms~1s]"),
    *("[1~2s]", "[2~3s]", "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]"),
)
# Upper limits of finer classes, for percentiles: 20 steps of 1 ms, 15 of 2 ms, and so on up to 10 s; the last is open.
_FINE_STEPS: Final = ((1, 20), (2, 15), (5, 10), (10, 10), (50, 6), (100, 5), (1_000, 9))
_FINE_LIMITS_MS: Final = (*accumulate(step for step, count in _FINE_STEPS for _ in range(count)), 2**63 - 1)


class _Sample(NamedTuple):
    ms: int
    puts: int = 0
    found: int = 0
    missed: int = 0
    transferred: int = 0


class StoreStats:
    """Counters of the store. Add to the numbers directly; call `tick` once a second."""

    def __init__(self, now_ms: int) -> None:
        self.started_ms = now_ms
        self.puts = 0
        self.put_bytes = 0
        self.puts_failed = 0
        self.gets_found = 0
        self.gets_missed = 0
        self.transferred = 0  # messages sent to consumers
        self.put_ms_max = 0
        self.get_ms_max = 0
        self.put_seconds = 0.0  # total duration of puts, without batches
        self.slow_puts = [0] * len(_CLASS_NAMES)  # since the start, by class; the first stays 0: the rest of `puts`
        self._classes = [0] * len(_CLASS_NAMES)
        self._last_classes = self._classes.copy()
        self._fine = [0] * len(_FINE_LIMITS_MS)
        self._last_fine = self._fine.copy()
        self._turn_ms, self._turn_puts = now_ms + _TURN_MS, 0
        self._samples: deque[_Sample] = deque([_Sample(now_ms)], maxlen=_SAMPLES_MAX)
        self._morning_ms = _next_morning_ms(now_ms)
        self.today = (0, 0)  # puts and transferred messages at the start of the day
        self.yesterday = (0, 0)  # the same, a day before

    def put_took(self, ms: int) -> None:
        """Count the duration of one put. Puts of less than a millisecond need no call: they are the rest."""
        index = bisect_right(CLASS_LIMITS_MS, ms)
        self._classes[index] += 1
        self.slow_puts[index] += 1
        self._fine[bisect_left(_FINE_LIMITS_MS, ms)] += 1
        if ms > self.put_ms_max:
            self.put_ms_max = ms

    def tick(self, now_ms: int) -> None:
        """Take a sample if one is due; start a new minute and a new day on time."""
        if now_ms < self._samples[-1].ms:  # the clock was set back: start again
            self._samples.clear()
            self._turn_ms = now_ms + _TURN_MS
        if not self._samples or now_ms - self._samples[-1].ms >= _SAMPLE_MS:
            self._samples.append(_Sample(now_ms, self.puts, self.gets_found, self.gets_missed, self.transferred))
        if now_ms >= self._turn_ms:
            self._begin_minute(now_ms)
        if now_ms >= self._morning_ms:
            self.yesterday, self.today = self.today, (self.puts, self.transferred)
            self._morning_ms = _next_morning_ms(now_ms)

    def _begin_minute(self, now_ms: int) -> None:
        untold = max(0, self.puts - self._turn_puts - sum(self._classes))
        self._classes[0] += untold
        self._fine[0] += untold
        self._last_classes, self._classes = self._classes, [0] * len(_CLASS_NAMES)
        self._last_fine, self._fine = self._fine, [0] * len(_FINE_LIMITS_MS)
        self._turn_ms, self._turn_puts = now_ms + _TURN_MS, self.puts

    def runtime_info(self, now_ms: int) -> dict[str, str]:
        """Return the store's part of the runtime information, by Java's keys."""
        return {
            "bootTimestamp": str(self.started_ms),
            "runtime": _runtime_text(now_ms - self.started_ms),
            "putMessageEntireTimeMax": str(self.put_ms_max),
            "putMessageTimesTotal": str(self.puts),
            "putMessageFailedTimes": str(self.puts_failed),
            "putMessageSizeTotal": str(self.put_bytes),
            "putMessageDistributeTime": "".join(
                f"{name}:{count} " for name, count in zip(_CLASS_NAMES, self._last_classes, strict=True)
            ),
            "putMessageAverageSize": java_double(self.put_bytes / max(1, self.puts)),
            "dispatchMaxBuffer": "0",  # dispatch is part of the put, without a backlog
            "getMessageEntireTimeMax": str(self.get_ms_max),
            "putTps": self._rates(lambda sample: sample.puts),
            "getFoundTps": self._rates(lambda sample: sample.found),
            "getMissTps": self._rates(lambda sample: sample.missed),
            "getTotalTps": self._rates(lambda sample: sample.found + sample.missed),
            "getTransferedTps": self._rates(lambda sample: sample.transferred),
            "putLatency99": f"{percentile_ms(self._last_fine, 0.99):.2f}",
            "putLatency999": f"{percentile_ms(self._last_fine, 0.999):.2f}",
            "msgPutTotalYesterdayMorning": str(self.yesterday[0]),
            "msgPutTotalTodayMorning": str(self.today[0]),
            "msgPutTotalTodayNow": str(self.puts),
            "msgGetTotalYesterdayMorning": str(self.yesterday[1]),
            "msgGetTotalTodayMorning": str(self.today[1]),
            "msgGetTotalTodayNow": str(self.transferred),
        }

    def _rates(self, number: Callable[[_Sample], int]) -> str:
        """Format the rates per second over the last 10, 60 and 600 seconds, or over the time so far."""
        last = self._samples[-1]
        texts = []
        for seconds in _RATES_OVER_SECONDS:
            first = self._samples[max(0, len(self._samples) - 1 - seconds)]
            span_ms = last.ms - first.ms
            texts.append(java_double((number(last) - number(first)) * 1000 / span_ms if span_ms > 0 else 0.0))
        return " ".join(texts)


def percentile_ms(fine_counts: list[int], share: float) -> float:
    """Return the time within which *share* of the puts finished, interpolated within the finer classes."""
    wanted = int(sum(fine_counts) * share)
    passed = 0
    lower = 0
    for limit, count in zip(_FINE_LIMITS_MS, fine_counts, strict=True):
        if wanted <= passed + count:
            return lower + ((limit - lower) * (wanted - passed) / count if count else 0.0)
        passed += count
        lower = limit
    return float(lower)


def java_double(value: float) -> str:
    """Format as Java's Double.toString: tools written for Java brokers parse these texts."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    decimal = Decimal(repr(value)).normalize()
    digits = "".join(map(str, decimal.as_tuple().digits))
    return f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{decimal.adjusted()}"


def _runtime_text(ms: int) -> str:
    seconds = max(0, ms) // 1000
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days:,} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def _next_morning_ms(now_ms: int) -> int:
    """Return the next midnight on this machine's clock."""
    today = datetime.fromtimestamp(now_ms / 1000).replace(hour=0, minute=0, second=0, microsecond=0)
    return int((today + timedelta(days=1)).timestamp() * 1000)
