"""Flushes of log, queues and index to the disk, and the notification of waiting callers.

SYNC_FLUSH is group commit: all callers that wait while one fdatasync runs are served together by the next one.
ASYNC_FLUSH flushes the log when enough pages are dirty, and all of it from time to time. Consume queues and index have
their own intervals, and the checkpoint is written after them.

Every step can be called without a thread; `start` only calls them again and again. The times of flushes agree with
Java's GroupCommitService, FlushRealTimeService and FlushConsumeQueueService.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from hanabi.errors import StoreClosed, StoreError
from hanabi.store.config import PAGE_BYTES, FlushMode, StoreConfig
from hanabi.store.log.commit_log import CommitLog
from hanabi.store.upkeep.checkpoint import Checkpoint

logger = logging.getLogger(__name__)

Clock = Callable[[], float]  # seconds; must not jump, so not the time of day


class Rhythm:
    """The least amount worth a flush: some pages, and from time to time anything at all."""

    def __init__(self, least_pages: int, thorough_interval_ms: int) -> None:
        self._least_pages = least_pages
        self._thorough_seconds = thorough_interval_ms / 1000
        self._last_thorough = float("-inf")

    def least_pages(self, now: float) -> int:
        """Return the least pages for a flush; 0 when a thorough flush is due, which then counts as done."""
        if now >= self._last_thorough + self._thorough_seconds:
            self._last_thorough = now
            return 0
        return self._least_pages


def is_worth_it(end: int, done: int, least_pages: int, segment_bytes: int) -> bool:
    """Return whether *least_pages* pages, or a segment's end, or at 0 anything, lie between the two offsets."""
    if least_pages == 0 or end // segment_bytes != done // segment_bytes:
        return end > done
    return end // PAGE_BYTES - done // PAGE_BYTES >= least_pages


class _Waiter(NamedTuple):
    offset: int
    on_done: Callable[[bool], None]
    deadline: float


class LogFlusher:
    """Flushes the commit log to the disk and notifies waiting callers."""

    def __init__(
        self, commit_log: CommitLog, checkpoint: Checkpoint, config: StoreConfig, *, clock: Clock = time.monotonic
    ) -> None:
        self._commit_log, self._log, self._checkpoint, self._clock = commit_log, commit_log.log, checkpoint, clock
        self.use(config)
        self._waiters: list[_Waiter] = []
        self._lock = threading.Lock()  # held while `_waiters` is replaced or added to
        self._stopped = False
        self._flush_thread = Repeater("hanabi-flush-log", self.step)
        self._deadline_thread = Repeater("hanabi-flush-deadlines", self.expire)

    def use(self, config: StoreConfig) -> None:
        """Keep to these intervals and limits from now on. The mode stays."""
        self._timeout_seconds = config.sync_flush_timeout_ms / 1000
        is_sync = config.flush_mode is FlushMode.SYNC_FLUSH
        least_pages = 0 if is_sync else config.flush_commit_log_least_pages
        self._flush_rhythm = Rhythm(least_pages, config.flush_commit_log_thorough_interval_ms)
        self._interval_seconds = config.flush_commit_log_interval_ms / 1000
        self._wakes_on_append = is_sync or not config.flush_commit_log_timed

    # For the appending thread

    def await_flush(self, offset: int, on_done: Callable[[bool], None]) -> None:
        """Call *on_done* once: with True when everything below *offset* is on the disk, with False when that took
        longer than syncFlushTimeout or failed. It is called in another thread."""
        waiter = _Waiter(offset, on_done, self._clock() + self._timeout_seconds)
        with self._lock:
            if self._stopped:
                raise StoreClosed("the log is not flushed any more")
            self._waiters.append(waiter)
        self._flush_thread.wake()

    def appended(self) -> None:
        """Note an append for which no caller waits."""
        if self._wakes_on_append:
            self._flush_thread.wake()

    # Steps

    def step(self) -> float:
        """Flush what is due and notify the waiters; return the seconds until the next step is due."""
        now, log = self._clock(), self._log
        with self._lock:
            needed = max((waiter.offset for waiter in self._waiters), default=0)
        try:
            flush_pages = 0 if needed > log.flushed_offset else self._flush_rhythm.least_pages(now)
            if is_worth_it(log.end_offset, log.flushed_offset, flush_pages, log.segment_bytes):
                self._flush()
        except StoreError:
            self._notify(lambda waiter: waiter.offset <= needed, stored=False)
            raise
        flushed = log.flushed_offset
        self._notify(lambda waiter: waiter.offset <= flushed, stored=True)  # also waiters that came during the flush
        return self._interval_seconds

    def expire(self) -> float:
        """Expire the waiters whose deadline has passed; return the seconds until the next deadline.

        Not part of `step`, because the slow disk that makes them wait also blocks `step`.
        """
        now = self._clock()
        self._notify(lambda waiter: waiter.deadline <= now, stored=False)
        with self._lock:
            next_deadline = self._waiters[0].deadline if self._waiters else now + self._timeout_seconds
        return max(next_deadline - now, 0.0)

    def flush_all(self) -> None:
        """Bring everything written so far to the disk."""
        self._flush()

    def _flush(self) -> None:
        store_timestamp_ms = self._commit_log.store_timestamp_ms  # before: later appends do not count
        self._log.flush()
        self._checkpoint.log_ms = max(self._checkpoint.log_ms, store_timestamp_ms)

    def _notify(self, is_meant: Callable[[_Waiter], bool], *, stored: bool) -> None:
        with self._lock:
            due = [waiter for waiter in self._waiters if is_meant(waiter)]
            if due:
                self._waiters = [waiter for waiter in self._waiters if not is_meant(waiter)]
        for waiter in due:
            try:
                waiter.on_done(stored)
            except Exception:
                logger.exception("a callback failed after the flush up to log offset %d", waiter.offset)

    # Threads

    def start(self) -> None:
        self._flush_thread.start()
        self._deadline_thread.start()

    def stop(self) -> None:
        """Take no more waiters, flush everything and notify the rest. Raises the last flush's error."""
        with self._lock:
            self._stopped = True
        self._flush_thread.stop()
        self._deadline_thread.stop()
        stored = False
        try:
            self.flush_all()
            stored = True
        finally:
            self._notify(lambda waiter: True, stored=stored)


class QueueFlusher:
    """Flushes consume queues and index to the disk, and then the checkpoint.

    *flush* is called with the least number of pages that a queue must have to be flushed (0: everything);
    *dispatched_ms* returns the store time of the newest message that is in the queues.
    """

    def __init__(
        self,
        flush: Callable[[int], None],
        dispatched_ms: Callable[[], int],
        checkpoint: Checkpoint,
        config: StoreConfig,
        *,
        clock: Clock = time.monotonic,
    ) -> None:
        self._flush, self._dispatched_ms, self._checkpoint, self._clock = flush, dispatched_ms, checkpoint, clock
        self.use(config)
        self._thread = Repeater("hanabi-flush-queues", self.step)

    def use(self, config: StoreConfig) -> None:
        """Keep to these intervals and limits from now on."""
        self._interval_seconds = config.flush_consume_queue_interval_ms / 1000
        self._rhythm = Rhythm(config.flush_consume_queue_least_pages, config.flush_consume_queue_thorough_interval_ms)

    def step(self) -> float:
        """Flush what is due; return the seconds until the next step is."""
        least_pages = self._rhythm.least_pages(self._clock())
        if least_pages == 0:
            self.flush_all()
        else:
            self._flush(least_pages)
        return self._interval_seconds

    def flush_all(self) -> None:
        dispatched_ms = self._dispatched_ms()  # before: later messages do not count
        self._flush(0)
        self._checkpoint.queues_ms = max(self._checkpoint.queues_ms, dispatched_ms)
        self._checkpoint.flush()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, flush everything and write the checkpoint. Raises the flush's error."""
        self._thread.stop()
        self.flush_all()


class Repeater:
    """A thread that calls *step* again after as many seconds as it returned, or as soon as it is woken.

    A step that raises is logged, and called again a second later: a passing fault (no memory) does not end the thread.
    """

    def __init__(self, name: str, step: Callable[[], float]) -> None:
        self._step = step
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        if not self._wake.is_set():  # cheaper than setting it again
            self._wake.set()

    def stop(self) -> None:
        """Wait for the step that runs, and call no more."""
        self._stopping = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        last_error = ""
        while True:
            self._wake.clear()  # first: a wake or stop from here on is seen below
            if self._stopping:
                return
            try:
                seconds = self._step()
                last_error = ""
            except Exception as error:
                if repr(error) != last_error:  # once, not every second
                    is_ours = isinstance(error, StoreError)
                    logger.error("%s: %s; retrying", self._thread.name, error, exc_info=None if is_ours else error)
                last_error, seconds = repr(error), 1.0
            self._wake.wait(seconds)
