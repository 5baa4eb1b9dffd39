"""Consuming each message once in effect: `deduplicate` around a listener.

Brokers deliver at least once: after a crash, a lost answer, a rebalance or a retry of the sender, the same message may
come again. This keeps the listener from doing the same work twice, by a key that names the work.

What happens to a message, by what the store says of its key:

    free     it is claimed, and the listener gets the message;
             the listener returns: the key is done, and is remembered for `remember_s`
             the listener raises:  the key is free again, and the message comes again
    claimed  by somebody who is at work on it, or died doing so: the message comes again later, and after `claim_s` the
             claim is over
    done     the message counts as consumed, and the listener does not see it

And under failure:

    the process dies while the listener runs    the claim expires, then the message is consumed again: what the listener
                                                had done by then is done twice. No store outside of the listener's own
                                                transaction can do better
    the listener takes longer than `claim_s`    somebody else may begin the same work
    the store cannot be asked for a claim       KeyStoreFailed: the listener is not called, the messages come again
    the store cannot be told "done" or "free"   logged: the claim stays until it expires. The message counts for what
                                                the listener made of it

So `claim_s` is longer than the listener can take, and `remember_s` longer than a message can be under way: brokers keep
them for three days.
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
REMEMBER_S: Final = 3 * 24 * 3600.0  # the time that brokers keep messages for

Key: TypeAlias = Callable[[StoredMessage], str | None] | str

logger = logging.getLogger(__name__)

T = TypeVar("T")


def deduplicate(
    key: Key, store: KeyStore, *, scope: str | None = None, claim_s: float = CLAIM_S, remember_s: float = REMEMBER_S
) -> Callable[[AnyListener], AnyListener]:
    """Decorates a listener, `def` or `async def`, so that it does not see what was consumed already.

        @consumer.listener
        @deduplicate(lambda message: message.keys[0], SqliteKeys("seen.db"))
        def bill(messages): ...

    *key* says which messages are the same: a function, or the name of a property. A message without a key (None) is
    always consumed. *scope* keeps the keys of listeners apart that share a store; it is the listener's full name, if
    not given, so a listener that is renamed forgets. See the module for what happens when something fails.
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
    """One call: which of its messages the listener gets. Pure."""

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
        """The keys that are claimed."""
        answers = self.claims if claims is None else dict(zip(self.keys, claims, strict=True))
        return [key for key, claim in answers.items() if claim is Claim.OURS]

    def split(self, error: BaseException) -> tuple[list[str], list[str]]:
        """The keys whose work is done although *error* was raised, and the others of ours."""
        count = succeeded_of(error, len(self.fresh))
        done = [key for key in self._fresh_keys[:count] if key is not None]
        return done, [key for key in self.ours() if key not in done]

    def recounted(self, error: BaseException) -> ConsumeLater | None:
        """*error* for all messages of the call, where the listener has counted those that it got."""
        if not isinstance(error, ConsumeLater) or not error.succeeded:
            return None
        return ConsumeLater(
            str(error),
            delay_level=error.delay_level,
            suspend_s=error.suspend_s,
            succeeded=self._settled(succeeded_of(error, len(self.fresh))),
        )

    def _settled(self, fresh_done: int) -> int:
        """How many messages from the start need not come again, when the listener did so many of those that it got."""
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
        """What somebody else has claimed must come again: who knows whether it gets done."""
        busy = [key for key, claim in self.claims.items() if claim is Claim.BUSY]
        if busy:
            raise ConsumeLater(
                f"{len(busy)} of {len(self._messages)} messages are claimed by another consumer, {busy[0]!r} is one",
                succeeded=self._settled(len(self.fresh)),
            )


class _Once:
    """Between a listener and its store. The methods with a `work` may block."""

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
        """Nobody waits for the claims any more."""
        self._tell(lambda: self._store.release(work.ours(claims), work.owner))

    def succeeded(self, work: _Work) -> None:
        if keys := work.ours():
            self._tell(lambda: self._store.done(keys, work.owner, self._remember_s))

    def failed(self, work: _Work, error: BaseException) -> None:
        done, others = work.split(error)
        if done:
            self._tell(lambda: self._store.done(done, work.owner, self._remember_s))
        if others:
            self._tell(lambda: self._store.release(others, work.owner))

    def _tell(self, tell: Callable[[], None]) -> None:
        """The listener has decided already: a store that fails now does not change it."""
        try:
            tell()
        except MQError as error:
            logger.warning(
                "deduplicate %s: claims stay until they expire, in %.0f s: %s", self._scope, self._claim_s, error
            )


async def _here(work: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
    """For stores that do not block."""
    del undo
    return work()


async def _in_thread(work: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
    """*work* in a thread of its own, which is a daemon: it keeps nobody from ending. A store is asked twice a call, and
    takes longer than beginning a thread does.

    If nobody waits for the result any more, *undo* gets it.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def body() -> None:
        try:
            result = work()
        except BaseException as raised:  # noqa: BLE001 - told to whoever waits
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
    """Have *callback* called in the loop; False if that is closed."""
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        return False
    return True
