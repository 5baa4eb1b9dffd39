"""Effectively-once consumption: `deduplicate` around a listener.

Brokers deliver at least once: after a crash, a lost response, a rebalance or a retry of the sender, the same message
may be redelivered. This keeps the listener from doing the same work twice, by a key that names the work.

Handling of a message, by the state of its key in the store:

    free     it is claimed, and the listener gets the message;
             the listener returns: the key is done, and is remembered for `remember_s`
             the listener raises:  the key is free again, and the message is redelivered
    claimed  by a consumer that works on it or died: the message is redelivered later, and the claim expires after
             `claim_s`
    done     the message counts as consumed, and the listener does not get it

Behaviour under failure:

    the process dies while the listener runs    the claim expires, then the message is consumed again: the listener's
                                                work up to then is done twice. No store outside of the listener's own
                                                transaction can do better
    the listener takes longer than `claim_s`    another consumer may start the same work
    the store cannot be asked for a claim       KeyStoreFailed: the listener is not called, the messages are redelivered
    the store cannot record "done" or "free"    logged: the claim stays until it expires. The listener's result decides
                                                about the message

So `claim_s` must be longer than the listener can take, and `remember_s` longer than a message can be in flight: brokers
keep them for three days.
"""

import asyncio
import functools
import logging
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, TypeVar, cast

from hanabi.client.consumer.listening.listener import AnyListener, ConsumeLater, is_async, succeeded_of
from hanabi.client.deduplicate.key_store import Claim, KeyStore
from hanabi.errors import ConfigError, MQError
from hanabi.message import StoredMessage

CLAIM_S: Final = 15 * 60.0  # the consume timeout of push consumers
REMEMBER_S: Final = 3 * 24 * 3600.0  # the time that brokers keep messages

Key: TypeAlias = Callable[[StoredMessage], str | None] | str

logger = logging.getLogger(__name__)

T = TypeVar("T")


def deduplicate(
    key: Key, store: KeyStore, *, scope: str | None = None, claim_s: float = CLAIM_S, remember_s: float = REMEMBER_S
) -> Callable[[AnyListener], AnyListener]:
    """Decorate a listener, `def` or `async def`, so that it does not get messages that were consumed already.

        @consumer.listener
        @deduplicate(lambda message: message.keys[0], SqliteKeys("seen.db"))
        def bill(messages): ...

    *key* identifies the work: a function of the message, or the name of a property. A message without a key (None) is
    always consumed. *scope* separates the keys of listeners that share a store; it defaults to the listener's full
    name, so a renamed listener starts over. See the module for the behaviour under failure.
    """
    if claim_s <= 0 or remember_s <= 0:
        raise ConfigError(f"claim_s and remember_s must be more than 0, not {claim_s} and {remember_s}")
    key_of = (lambda message: message.properties.get(key)) if isinstance(key, str) else key

    def decorate(listener: AnyListener) -> AnyListener:
        name = scope if scope is not None else f"{listener.__module__}.{getattr(listener, '__qualname__', listener)}"
        once = _Once(key_of, store, name, claim_s, remember_s)
        wrap = _asynchronous if is_async(listener) else _blocking
        return cast(AnyListener, functools.update_wrapper(wrap(once, listener), listener))

    return decorate


def _blocking(once: "_Once", listener: Callable[[list[StoredMessage]], Any]) -> Callable[..., Any]:
    def listen(messages: list[StoredMessage]) -> Any:
        work = once.work(messages)
        work.answered(once.claim(work))
        returned = None
        if work.fresh:
            try:
                returned = listener(work.fresh)
            except BaseException as error:
                once.failed(work, error)
                if (counted := work.recounted(error)) is not None:
                    raise counted from error
                raise
            once.succeeded(work)
        work.raise_if_busy()
        return returned

    return listen


def _asynchronous(once: "_Once", listener: Callable[[list[StoredMessage]], Any]) -> Callable[..., Any]:
    run = _in_thread if once.blocks else _here

    async def listen(messages: list[StoredMessage]) -> Any:
        work = once.work(messages)
        work.answered(await run(lambda: once.claim(work), lambda claims: once.give_back(work, claims)))
        returned = None
        if work.fresh:
            try:
                returned = await listener(work.fresh)
            except BaseException as error:
                failure = error
                await run(lambda: once.failed(work, failure))
                if (counted := work.recounted(error)) is not None:
                    raise counted from error
                raise
            await run(lambda: once.succeeded(work))
        work.raise_if_busy()
        return returned

    return listen


class _Work:
    """One call: selects the messages for the listener. Pure."""

    def __init__(self, messages: Sequence[StoredMessage], keys: Sequence[str | None], owner: str) -> None:
        self.owner = owner
        self.claims: dict[str, Claim] = {}
        self.keys = list(dict.fromkeys(key for key in keys if key is not None))  # each once
        self.fresh: list[StoredMessage] = []
        self._fresh_keys: list[str | None] = []
        self._messages = list(zip(keys, messages, strict=True))

    def answered(self, claims: Sequence[Claim]) -> None:
        self.claims = dict(zip(self.keys, claims, strict=True))
        given: set[str] = set()
        for key, message in self._messages:
            if key is None or (self.claims[key] is Claim.OURS and key not in given):
                self.fresh.append(message)
                self._fresh_keys.append(key)
                if key is not None:
                    given.add(key)

    def ours(self, claims: Sequence[Claim] | None = None) -> list[str]:
        """Return the keys that are claimed."""
        answers = self.claims if claims is None else dict(zip(self.keys, claims, strict=True))
        return [key for key, claim in answers.items() if claim is Claim.OURS]

    def split(self, error: BaseException) -> tuple[list[str], list[str]]:
        """Split our keys into those whose work is done although *error* was raised, and the rest."""
        count = succeeded_of(error, len(self.fresh))
        done = [key for key in self._fresh_keys[:count] if key is not None]
        return done, [key for key in self.ours() if key not in done]

    def recounted(self, error: BaseException) -> ConsumeLater | None:
        """Convert *error*, which counts the messages that the listener got, to all messages of the call."""
        if not isinstance(error, ConsumeLater) or not error.succeeded:
            return None
        return ConsumeLater(
            str(error),
            delay_level=error.delay_level,
            suspend_s=error.suspend_s,
            succeeded=self._settled(succeeded_of(error, len(self.fresh))),
        )

    def _settled(self, fresh_done: int) -> int:
        """Return how many messages from the start need no redelivery, after the listener did this many of those it
        got.
        """
        done = {id(message) for message in self.fresh[:fresh_done]}
        left = {id(message) for message in self.fresh[fresh_done:]}
        left_keys = {key for key in self._fresh_keys[fresh_done:] if key is not None}
        for index, (key, message) in enumerate(self._messages):
            if id(message) in done:
                continue
            if id(message) in left or key is None or key in left_keys or self.claims[key] is Claim.BUSY:
                return index
        return len(self._messages)

    def raise_if_busy(self) -> None:
        """Raise if another consumer has claimed some messages: they must be redelivered, as it may fail."""
        busy = [key for key, claim in self.claims.items() if claim is Claim.BUSY]
        if busy:
            raise ConsumeLater(
                f"{len(busy)} of {len(self._messages)} messages are claimed by another consumer, {busy[0]!r} is one",
                succeeded=self._settled(len(self.fresh)),
            )


class _Once:
    """Link between a listener and its store. The methods with a `work` may block."""

    def __init__(
        self,
        key_of: Callable[[StoredMessage], str | None],
        store: KeyStore,
        scope: str,
        claim_s: float,
        remember_s: float,
    ) -> None:
        self._key_of, self._store, self._scope = key_of, store, scope
        self._claim_s, self._remember_s = claim_s, remember_s
        self.blocks = store.blocks

    def work(self, messages: Sequence[StoredMessage]) -> _Work:
        keys = [self._key_of(message) for message in messages]
        for key in keys:
            if key is not None and not isinstance(key, str):
                raise ConfigError(f"deduplicate: a key is a text or None, not {key!r}")
        scoped = [None if key is None else f"{self._scope}:{key}" for key in keys]
        return _Work(messages, scoped, uuid.uuid4().hex)

    def claim(self, work: _Work) -> list[Claim]:
        return self._store.claim(work.keys, work.owner, self._claim_s) if work.keys else []

    def give_back(self, work: _Work, claims: Sequence[Claim]) -> None:
        """Release the claims of a call that was given up."""
        self._report(lambda: self._store.release(work.ours(claims), work.owner))

    def succeeded(self, work: _Work) -> None:
        if keys := work.ours():
            self._report(lambda: self._store.done(keys, work.owner, self._remember_s))

    def failed(self, work: _Work, error: BaseException) -> None:
        done, others = work.split(error)
        if done:
            self._report(lambda: self._store.done(done, work.owner, self._remember_s))
        if others:
            self._report(lambda: self._store.release(others, work.owner))

    def _report(self, report: Callable[[], None]) -> None:
        """Report the listener's result to the store; a failure is logged and does not change the result."""
        try:
            report()
        except MQError as error:
            logger.warning(
                "deduplicate %s: claims stay until they expire, in %.0f s: %s", self._scope, self._claim_s, error
            )


async def _here(work: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
    """Run *work* directly, for stores that do not block."""
    del undo
    return work()


async def _in_thread(work: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
    """Run *work* in a new daemon thread, which does not delay interpreter exit. A store is called twice per listener
    call, and takes longer than starting a thread.

    If the caller has given up, *undo* gets the result.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def body() -> None:
        try:
            result = work()
        except BaseException as raised:  # noqa: BLE001 - raised again in the caller
            error = raised
            _call(loop, lambda: None if future.done() else future.set_exception(error))
            return
        if not _call(loop, lambda: arrived(result)) and undo is not None:
            undo(result)

    def arrived(result: T) -> None:
        if not future.done():
            future.set_result(result)
        elif undo is not None:
            threading.Thread(target=undo, args=(result,), daemon=True, name="deduplicate gives back").start()

    threading.Thread(target=body, daemon=True, name="deduplicate").start()
    return await future


def _call(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> bool:
    """Schedule *callback* in the loop; False if the loop is closed."""
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        return False
    return True
