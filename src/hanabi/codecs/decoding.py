"""Listener around a listener of decoded messages: dead letters for the bodies that do not decode."""

import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from hanabi.client.consumer.listening.listener import ConsumeLater, DeadLetters, is_async, succeeded_of
from hanabi.codecs.received import Received
from hanabi.errors import BodyNotDecoded
from hanabi.message import StoredMessage

logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")
Decode = Callable[[StoredMessage], Received[T]]


def decoding_listener(
    decode: Decode[T], function: Callable[[list[Received[T]]], R]
) -> Callable[[list[StoredMessage]], R]:
    """Return a listener that calls *function* with the decoded messages, `def` for a `def`, `async def` for one."""
    wrap = _asynchronous if is_async(cast(Callable[[list[StoredMessage]], Any], function)) else _blocking
    listen = wrap(decode, cast(Callable[..., Any], function))
    return cast(Callable[[list[StoredMessage]], R], functools.update_wrapper(listen, function))


def _blocking(decode: Decode[T], function: Callable[[list[Received[T]]], Any]) -> Callable[..., Any]:
    def listen(messages: list[StoredMessage]) -> Any:
        batch = _Batch(decode, messages)
        try:
            result = function(batch.good) if batch.good else None
        except ConsumeLater as later:
            raise batch.later(later) from later
        batch.end()
        return result

    return listen


def _asynchronous(decode: Decode[T], function: Callable[[list[Received[T]]], Awaitable[Any]]) -> Callable[..., Any]:
    async def listen(messages: list[StoredMessage]) -> Any:
        batch = _Batch(decode, messages)
        try:
            result = await function(batch.good) if batch.good else None
        except ConsumeLater as later:
            raise batch.later(later) from later
        batch.end()
        return result

    return listen


class _Batch:
    """Messages of one call: those that decode, and the errors of the others, by position."""

    def __init__(self, decode: Decode[Any], messages: list[StoredMessage]) -> None:
        self.good: list[Received[Any]] = []
        self._positions: list[int] = []  # of the good ones
        self._bad: dict[int, BodyNotDecoded] = {}
        for position, message in enumerate(messages):
            try:
                self.good.append(decode(message))
                self._positions.append(position)
            except BodyNotDecoded as error:
                self._bad[position] = error

    def end(self) -> None:
        """Make dead letters of the bad ones; the good ones are consumed."""
        if self._bad:
            for error in self._bad.values():
                logger.warning("%s; it becomes a dead letter", error)
            raise DeadLetters(f"{len(self._bad)} bodies do not decode", positions=tuple(self._bad))

    def later(self, later: ConsumeLater) -> ConsumeLater:
        """Return *later* with the number of consumed messages counted in the whole batch, up to the first bad one."""
        done = succeeded_of(later, len(self.good))
        first_left = self._positions[done] if done < len(self.good) else len(self.good) + len(self._bad)
        return ConsumeLater(
            str(later),
            delay_level=later.delay_level,
            succeeded=min(first_left, *self._bad) if self._bad else first_left,
            suspend_s=later.suspend_s,
        )
