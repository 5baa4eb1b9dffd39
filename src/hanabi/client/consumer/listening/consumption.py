"""The seam between pulled messages and the listener, which concurrent and ordered consumption share.

Each queue that is ours is taken, offered what was pulled, and released. How the listener is called, once for a batch,
is here too: timed and counted.
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
    """Gets messages of the queues that are ours, and sees to it that each is consumed or comes again."""

    def take(self, owned: OwnedQueue) -> None:
        """This queue is ours from now on."""
        ...

    def offer(self, owned: OwnedQueue, messages: list[StoredMessage]) -> None:
        """These were pulled; they are in the queue's progress already."""
        ...

    async def release(self, owned: OwnedQueue) -> None:
        """The queue was dropped: return when nothing of it will change its progress any more."""
        ...

    def is_busy(self, owned: OwnedQueue) -> bool:
        """Whether the listener still works on messages of this queue."""
        ...

    def pause(self) -> None:
        """Begin no more calls of the listener."""
        ...

    def resume(self) -> None: ...

    async def close(self, seconds: float) -> bool:
        """Begin nothing more, let what is under way end; False if some did not in time."""
        ...


class Calls:
    """Calls of the listener for batches of one queue each. *hooks*, where there are any, are told of each."""

    def __init__(
        self,
        runs: ListenerRuns,
        stats: ConsumeStats,
        *,
        now: Callable[[], float],
        hooks: "HookedCalls | None" = None,
    ) -> None:
        self._runs, self._stats, self._now, self._hooks = runs, stats, now, hooks

    def start(self, owned: OwnedQueue, messages: list[StoredMessage], ended: Ended) -> object:
        """Call the listener with *messages*, then *ended* with what it raised."""
        finished = partial(self._finished, owned, len(messages), self._now(), ended)
        own = list(messages)  # the listener may do with it what it likes
        if self._hooks is None:
            return self._runs.start(own, finished)
        return self._hooks.start(self._runs, owned, own, finished)

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
    """Tells hooks of each call. What they leave in their context reaches the listener, and nobody else."""

    def __init__(self, hooks: ConsumeHooks, group: str, client_id: str, *, timeout_s: float) -> None:
        self._hooks, self._group, self._client_id, self._timeout_s = hooks, group, client_id, timeout_s

    def start(self, runs: ListenerRuns, owned: OwnedQueue, messages: list[StoredMessage], ended: Ended) -> object:
        context = ConsumeContext(
            group=self._group,
            queue=msgspec.structs.replace(owned.queue, topic=messages[0].topic),
            messages=tuple(messages),
            client_id=self._client_id,
        )
        began = time.monotonic()
        surroundings = contextvars.copy_context()

        def finished(error: BaseException | None) -> None:
            context.error = error
            context.outcome = outcome_of(error, time.monotonic() - began, self._timeout_s)
            surroundings.run(self._hooks.after, context)
            ended(error)

        surroundings.run(self._hooks.before, context)
        return surroundings.run(runs.start, messages, finished)


def outcome_of(error: BaseException | None, seconds: float, timeout_s: float) -> ConsumeOutcome:
    """How a call of the listener ended, in Java's terms. Pure."""
    if error is not None and not isinstance(error, ConsumeLater):
        return ConsumeOutcome.EXCEPTION
    if seconds >= timeout_s:
        return ConsumeOutcome.TIME_OUT
    return ConsumeOutcome.SUCCESS if error is None else ConsumeOutcome.FAILED


def tried_again(messages: list[StoredMessage]) -> list[StoredMessage]:
    """The same messages, with one more try counted. Pure."""
    return [msgspec.structs.replace(message, reconsume_times=message.reconsume_times + 1) for message in messages]


def report_failure(group: str, owned: OwnedQueue, messages: list[StoredMessage], error: BaseException) -> None:
    """Say which messages a listener failed on. One that asked for them again did so on purpose."""
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
