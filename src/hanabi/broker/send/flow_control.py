"""Back-pressure on sends: detects when the broker is too busy to take more messages.

A timer checks two lags about every 50 ms:

    the loop    the timer's lateness: how long a request waits until it is read
    the log     the age of the oldest byte that is not flushed

Busy is not the same as slow for a moment. A garbage collection, one slow disk access or a large request makes the loop
late once, and refusing the requests of that moment does not help. So the loop counts as behind only when it was late by
more than waitTimeMillsInSendQueue (200 ms) `STANDING_SAMPLES` times in a row: a queue that does not drain, not one that
was full once. The first sample in time ends it.

The log counts as behind when it lags for osPageCacheBusyTimeOutMills (1 s) longer than its flush mode allows: after
syncFlushTimeout every send would end in FLUSH_DISK_TIMEOUT anyway; with asynchronous flush, flushIntervalCommitLog and
flushCommitLogThoroughInterval limit how long data may stay in memory, and a hanging disk must not make that unlimited.
Queues are written with the log, so they are never behind it.

brokerFastFailureEnable = false turns all of it off. A stored message is never answered with "busy": the check comes
first. Agrees with Java's BrokerFastFailure in the limit and the first words of the remark, not in the rule: Java
refuses each request that waited 200 ms once, for which a single pause is enough.
"""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Final

from hanabi.broker.settings import Settings
from hanabi.store.config import FlushMode, StoreConfig
from hanabi.store.message_store import MessageStore

STANDING_SAMPLES: Final = 3
_SAMPLES_A_LIMIT: Final = 4
_INTERVAL_MS_MIN, _INTERVAL_MS_MAX = 10, 100


class FlowControl:
    """State of the back-pressure. `busy` is None, or the reason for refusals: the fast path reads it and calls nothing.

    `late_ms` is the loop's lateness in the last sample.
    """

    def __init__(self, store: MessageStore, settings: Settings, *, clock: Callable[[], float] = monotonic) -> None:
        """*clock* is in seconds and must not jump."""
        self._store, self._settings, self._clock = store, settings, clock
        self.busy: str | None = None
        self.late_ms = 0
        self._late_samples = 0
        self._mark_offset = store.max_log_offset  # end of the log
        self._mark_seconds = clock()  # at this time

    async def run(self) -> None:
        """Sample periodically, until cancelled."""
        while True:
            interval = self.interval_seconds
            due = self._clock() + interval
            await asyncio.sleep(interval)
            self.sample(self._clock() - due)

    @property
    def interval_seconds(self) -> float:
        """Return the time until the next sample: short enough to detect a wait over the limit."""
        interval_ms = self._settings.broker.send_wait_ms_max // _SAMPLES_A_LIMIT
        return min(max(interval_ms, _INTERVAL_MS_MIN), _INTERVAL_MS_MAX) / 1000

    def sample(self, late_seconds: float) -> None:
        """Decide from the lateness of the timer."""
        config = self._settings.broker
        late_ms = self.late_ms = max(int(late_seconds * 1000), 0)
        self._late_samples = self._late_samples + 1 if late_ms > config.send_wait_ms_max else 0
        log_ms = self._log_behind_ms()
        if not config.fast_failure_enabled:
            self.busy = None
        elif self._late_samples >= STANDING_SAMPLES:
            self.busy = (
                f"[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: {late_ms}ms"
            )
        elif log_ms > flush_ms_max(self._store.config):
            self.busy = (
                f"[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while, the disk is {log_ms}ms behind"
            )
        else:
            self.busy = None

    def _log_behind_ms(self) -> int:
        """Return for how long, at least, the log has had unflushed bytes."""
        now, store = self._clock(), self._store
        if store.flushed_log_offset >= self._mark_offset:
            self._mark_offset, self._mark_seconds = store.max_log_offset, now
        return int((now - self._mark_seconds) * 1000)


def flush_ms_max(config: StoreConfig) -> int:
    """Return how long a message may stay unflushed before the disk counts as busy."""
    if config.flush_mode is FlushMode.SYNC_FLUSH:
        planned_ms = config.sync_flush_timeout_ms
    else:
        planned_ms = config.flush_commit_log_interval_ms + config.flush_commit_log_thorough_interval_ms
    return planned_ms + config.page_cache_busy_timeout_ms
