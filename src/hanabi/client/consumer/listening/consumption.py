"""Interface between pulled messages and the listener, shared by concurrent and ordered consumption.

Each queue of this member is taken, offered the pulled messages, and released. The call of the listener for one batch,
timed and counted, is here too.
"""

import contextvars
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec

from hanabi.client.consumer.consume_stats import ConsumeStats
from hanabi.client.consumer.listening.listener import ConsumeLater
from hanabi.client.consumer.listening.listener_runs import Ended, ListenerRuns
from hanabi.client.consumer.owned_queue import OwnedQueue
from hanabi.client.hooks import ConsumeContext, ConsumeHooks, ConsumeOutcome
from hanabi.clock import wall_ms
from hanabi.message import StoredMessage

logger = logging.getLogger(__name__)


class Consumption(Protocol):
    """Consumer of the messages of this member's queues: each message is consumed or retried."""

    def take(self, owned: OwnedQueue) -> None:
        """Start to consume this queue."""
        ...

    def offer(self, owned: OwnedQueue, messages: list[StoredMessage]) -> None:
        """Accept pulled messages; they are in the queue's progress already."""
        ...

    async def release(self, owned: OwnedQueue) -> None:
        """Release a dropped queue; return when its progress will not change any more."""
        ...

    def is_busy(self, owned: OwnedQueue) -> bool:
        """Return True while the listener works on messages of this queue."""
        ...

    def pause(self) -> None:
        """Start no more calls of the listener."""
        ...

    def resume(self) -> None: ...

    async def close(self, seconds: float) -> bool:
        """Start no more calls and let running ones end; False if some did not end in time."""
        ...


class Calls:
    """Calls of the listener for batches of one queue each. *hooks*, if any, are notified of each call.

    Each call has the context variables of the moment when this was made, which is the start of the consumer: not those
    of the pull or of the other call that happens to lead to it.
    """

    def __init__(
        self,
        runs: ListenerRuns,
        stats: ConsumeStats,
        *,
        now: Callable[[], float],
        hooks: "HookedCalls | None" = None,
    ) -> None:
        self._runs, self._stats, self._now, self._hooks = runs, stats, now, hooks
        self._context = contextvars.copy_context()

    def start(self, owned: OwnedQueue, messages: list[StoredMessage], ended: Ended) -> object:
        """Call the listener with *messages*, then *ended* with the exception it raised, or None."""
        finished = partial(self._finished, owned, len(messages), self._now(), ended)
        own = list(messages)  # a copy: the listener may modify it
        context = self._context.copy()
        if self._hooks is None:
            return context.run(self._runs.start, own, finished)
        return self._hooks.start(self._runs, owned, own, finished, context)

    def stop(self, run: object) -> bool:
        """Try to end a call."""
        return self._runs.stop(run)

    async def close(self, seconds: float) -> bool:
        return await self._runs.close(seconds)

    def _finished(self, owned: OwnedQueue, count: int, began: float, ended: Ended, error: BaseException | None) -> None:
        now = self._now()
        totals = self._stats.of(owned.queue.topic, now).totals
        totals.batches += 1
        totals.consume_s += now - began
        if error is None:
            totals.succeeded += count
        else:
            totals.failed += count
        owned.last_consume_ms = wall_ms()
        ended(error)


class HookedCalls:
    """Calls that notify hooks. Context set by hooks reaches the listener and no other code."""

    def __init__(self, hooks: ConsumeHooks, group: str, client_id: str, *, timeout_s: float) -> None:
        self._hooks, self._group, self._client_id, self._timeout_s = hooks, group, client_id, timeout_s

    def start(
        self,
        runs: ListenerRuns,
        owned: OwnedQueue,
        messages: list[StoredMessage],
        ended: Ended,
        surroundings: contextvars.Context,
    ) -> object:
        context = ConsumeContext(
            group=self._group,
            queue=msgspec.structs.replace(owned.queue, topic=messages[0].topic),
            messages=tuple(messages),
            client_id=self._client_id,
        )
        began = time.monotonic()

        def finished(error: BaseException | None) -> None:
            context.error = error
            context.outcome = outcome_of(error, time.monotonic() - began, self._timeout_s)
            surroundings.run(self._hooks.after, context)
            ended(error)

        surroundings.run(self._hooks.before, context)
        return surroundings.run(runs.start, messages, finished)


def outcome_of(error: BaseException | None, seconds: float, timeout_s: float) -> ConsumeOutcome:
    """Classify the end of a listener call in Java's terms. Pure."""
    if error is not None and not isinstance(error, ConsumeLater):
        return ConsumeOutcome.EXCEPTION
    if seconds >= timeout_s:
        return ConsumeOutcome.TIME_OUT
    return ConsumeOutcome.SUCCESS if error is None else ConsumeOutcome.FAILED


def tried_again(messages: list[StoredMessage]) -> list[StoredMessage]:
    """Return the same messages with the reconsume count increased by one. Pure."""
    return [msgspec.structs.replace(message, reconsume_times=message.reconsume_times + 1) for message in messages]


def report_failure(group: str, owned: OwnedQueue, messages: list[StoredMessage], error: BaseException) -> None:
    """Log which messages the listener failed on. A `ConsumeLater` is intended, so it is not logged as a failure."""
    level, trace = (logging.DEBUG, None) if isinstance(error, ConsumeLater) else (logging.WARNING, error)
    logger.log(
        level,
        "group %s: the listener failed on %d messages of %s from offset %d on, message id %s: %s: %s",
        group,
        len(messages),
        owned.queue,
        messages[0].queue_offset,
        messages[0].message_id,
        type(error).__name__,
        error,
        exc_info=trace,
    )
