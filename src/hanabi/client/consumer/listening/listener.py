"""The listener of a push consumer, and `ConsumeLater`, by which it asks for redelivery.

A listener takes a list of messages. Returning any value means that all of them are consumed. Raising means that they
are redelivered; `ConsumeLater` chooses when, and from which message on.

In Java's terms: MessageListenerConcurrently, MessageListenerOrderly and their contexts.
"""

import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from hanabi.errors import ConfigError
from hanabi.message import StoredMessage

Listener: TypeAlias = Callable[[list[StoredMessage]], Any] | Callable[[list[StoredMessage]], Awaitable[Any]]
AnyListener = TypeVar("AnyListener", bound=Listener)

logger = logging.getLogger(__name__)

BROKER_CHOOSES: Final = 0
DEAD_LETTER: Final = -1
_SUSPEND_S: Final = (0.01, 30.0)  # limits of ConsumeMessageOrderlyService


class ConsumeLater(Exception):
    """Raised by a listener to have these messages redelivered.

    `delay_level` is one of the broker's delay levels; 0 leaves it to the broker (10 s, 30 s, 1 min ... with each try),
    -1 gives up and sends them to the dead letters. The first `succeeded` messages of the batch count as consumed. An
    ordered listener has no level: its queue waits for `suspend_s` seconds.
    """

    def __init__(
        self, reason: str = "", *, delay_level: int = BROKER_CHOOSES, succeeded: int = 0, suspend_s: float | None = None
    ) -> None:
        super().__init__(reason)
        if succeeded < 0:
            raise ConfigError(f"succeeded must not be negative, but is {succeeded}")
        self.delay_level = delay_level
        self.succeeded = succeeded
        self.suspend_s = suspend_s


class DeadLetters(ConsumeLater):
    """Raised by a listener to make dead letters of some messages of the batch, those at *positions*, at once.

    The others count as consumed. An ordered listener may raise it, too: its queue goes on. A broadcasting group has no
    dead letters: there the messages are skipped, with a warning.

        raise hanabi.DeadLetters("not an order", positions=[0, 3])
    """

    def __init__(self, reason: str = "", *, positions: Sequence[int]) -> None:
        super().__init__(reason, delay_level=DEAD_LETTER)
        self.positions = tuple(sorted(set(positions)))
        if not self.positions or self.positions[0] < 0:
            raise ConfigError(f"positions must have at least one place in the batch, and none below 0: {positions!r}")


def failed_positions(error: BaseException, batch: int) -> range | tuple[int, ...]:
    """Return the positions of a *batch* that *error* is about; the other messages are consumed."""
    if isinstance(error, DeadLetters):
        return tuple(position for position in error.positions if position < batch)
    return range(succeeded_of(error, batch), batch)


def is_async(listener: Listener) -> bool:
    """Return True if the result of *listener* must be awaited: an `async def`, also in a partial or a `__call__`."""
    while isinstance(listener, functools.partial):
        listener = listener.func
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(getattr(listener, "__call__", None))  # noqa: B004


def delay_level_of(error: BaseException) -> int:
    """Return the delay level that *error* asks for."""
    return error.delay_level if isinstance(error, ConsumeLater) else BROKER_CHOOSES


def succeeded_of(error: BaseException, batch: int) -> int:
    """Return how many messages of a *batch* are consumed although *error* was raised."""
    return min(error.succeeded, batch) if isinstance(error, ConsumeLater) else 0


def suspend_seconds(error: BaseException, usual: float) -> float:
    """Return how long the queue of an ordered listener waits before the retry."""
    chosen = error.suspend_s if isinstance(error, ConsumeLater) else None
    shortest, longest = _SUSPEND_S
    return min(max(usual if chosen is None else chosen, shortest), longest)


class ReturnCheck:
    """Check of the listener's return value. Any value counts as consumed; False is warned about once."""

    def __init__(self, name: str) -> None:
        self._name, self._warned = name, False

    def check(self, returned: object) -> None:
        if returned is False and not self._warned:
            self._warned = True
            logger.warning(
                "%s returned False, and its messages count as consumed: raise ConsumeLater, or any other exception, to"
                " get them again (logged once)",
                self._name,
            )


def refuse_coroutine(returned: object) -> None:
    """Raise if a `def` listener returned a coroutine: it has consumed nothing, so this is no success."""
    if inspect.iscoroutine(returned):
        returned.close()
        raise TypeError(
            "the listener returned a coroutine, which is never awaited: make the listener itself an async def"
        )
