"""Producers for blocking programs: same arguments and results as the asyncio classes.

Contains no logic: each call is passed to the loop thread of this process and waited for. Any number of threads may use
one at once. `push`, `pull` and `lite_pull` have the consumers.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Literal, Unpack, cast, overload

from hanabi.client.blocking.participant import BlockingParticipant
from hanabi.client.blocking.pending_sends import PendingSends, SendDone
from hanabi.client.config import ClientConfig
from hanabi.client.hooks import EndTransactionHook, SendHook
from hanabi.client.options import ProducerOptions
from hanabi.client.producer.config import ProducerConfig
from hanabi.client.producer.producer import Producer as AsyncProducer
from hanabi.client.producer.routing.selectors import Selector
from hanabi.client.producer.transaction_producer import Check, Execute
from hanabi.client.producer.transaction_producer import TransactionProducer as AsyncTransactionProducer
from hanabi.client.send_result import SendResult, TransactionResult
from hanabi.message import Message, MessageQueue, StoredMessage


class Producer(BlockingParticipant[AsyncProducer]):
    """Sends messages for a group of producers.

        with Producer("orders", namesrv="127.0.0.1:9876") as producer:
            result = producer.send(Message("Orders", b"...", tags="created", keys=["42"]))

    *options* are fields of `ClientConfig` (how to reach the cluster) and of `ProducerConfig` (how to send); both may
    be given whole, as *config* and *settings*. All threads may use one producer at once.
    """

    def __init__(
        self,
        group: str,
        *,
        config: ClientConfig | None = None,
        settings: ProducerConfig | None = None,
        hooks: Sequence[SendHook | EndTransactionHook] = (),
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._wrap(AsyncProducer(group, config=config, settings=settings, hooks=hooks, **options))

    def _wrap(self, aio: AsyncProducer) -> None:
        super().__init__(aio)
        self._pending = PendingSends(aio.settings.in_flight_max)

    @property
    def settings(self) -> ProducerConfig:
        return self._aio.settings

    def start(self) -> None:
        """Join the cluster. Needs no name server yet: the first send does."""
        super().start()

    def shutdown(self, timeout: float | None = None) -> None:
        """Finish sends in flight, within *timeout* seconds (default: that of a send), and leave the cluster."""
        super().shutdown(timeout)

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Send *message*; return where it is stored. Raise `SendFailed` after the last attempt, or at the deadline.

        It goes to *queue*, to the one that *selector* picks by *arg*, or to the one of its ordering key, and to no
        other. Otherwise the queues take turns, and if a broker fails another one is tried.
        """
        begin = partial(self._aio.begin_send, message, queue=queue, selector=selector, arg=arg, timeout=timeout)
        return cast(SendResult, self._life.run_short(begin))

    def send_future(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
        timeout: float | None = None,
        callback: SendDone | None = None,
    ) -> "Future[SendResult]":
        """Send *message* without waiting for it; return a future of the result. Otherwise as `send`.

            future = producer.send_future(Message("Orders", b"..."))
            ...
            print(future.result())                          # or the exception of the send

        *callback*, if given, is called with the result and None, or with None and the error; in the event loop's
        thread, where it must not block. If `in_flight_max` sends have not ended, this waits for room, at most *timeout*
        seconds, and raises `TooManyRequestsError`. A callback cannot wait there: it gets the error at once.
        """
        begin = partial(self._aio.begin_send, message, queue=queue, selector=selector, arg=arg, timeout=timeout)
        seconds = self.settings.send_timeout_s if timeout is None else timeout
        self._pending.enter(0.0 if self._life.in_loop_thread else seconds)
        try:
            future: Future[SendResult] = self._life.submit(begin)
        except BaseException:
            self._pending.leave()
            raise
        self._pending.add(future, callback)
        return future

    def flush(self, timeout: float | None = None) -> None:
        """Wait until the sends that have begun have ended, well or not: those of `send_future` and of other threads.

        Raise `RequestTimeoutError` after *timeout* seconds (default: without limit; each send has its own).
        """
        self._pending.wait(timeout)
        self._life.run(self._aio.flush(timeout))

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
        timeout: float | None = None,
    ) -> None:
        """Send *message* without a response. A lost message goes unnoticed."""
        self._life.run(self._aio.send_oneway(message, queue=queue, selector=selector, arg=arg, timeout=timeout))

    @overload
    def send_many(
        self,
        messages: Iterable[Message],
        *,
        selector: Selector | None = None,
        arg: Any = None,
        timeout: float | None = None,
        return_exceptions: Literal[False] = False,
    ) -> list[SendResult]: ...

    @overload
    def send_many(
        self,
        messages: Iterable[Message],
        *,
        selector: Selector | None = None,
        arg: Any = None,
        timeout: float | None = None,
        return_exceptions: Literal[True],
    ) -> list[SendResult | Exception]: ...

    def send_many(
        self,
        messages: Iterable[Message],
        *,
        selector: Selector | None = None,
        arg: Any = None,
        timeout: float | None = None,
        return_exceptions: bool = False,
    ) -> Sequence[SendResult | Exception]:
        """Send *messages* concurrently; return their results in order. *timeout* is for each of them.

        All are tried, even if some fail. With *return_exceptions* an error takes the place of the result; without, the
        first is raised at the end. Messages are sent in order, but may be stored in a different order; only messages
        with one ordering key are stored in order. If one of these fails, the later ones of its key are not sent.
        """
        # The caller's iterable may itself block (a file, a query), so it is read here and not on the loop.
        given = messages if isinstance(messages, Sequence) else list(messages)
        many = cast(Callable[..., Any], self._aio.send_many)
        sending = many(given, selector=selector, arg=arg, timeout=timeout, return_exceptions=return_exceptions)
        return cast(Sequence[SendResult | Exception], self._life.run(sending))

    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
        timeout: float | None = None,
    ) -> list[SendResult]:
        """Send messages of one topic in as few requests as their size allows; return the result of each, in order.

        Each request goes to one queue and is stored whole or not at all. Messages with ordering keys are put together
        by the queues of their keys. *timeout* is for each request. If one fails, the following ones are not sent:
        `SendFailed.stored` says which messages were.
        """
        sending = self._aio.send_batch(list(messages), queue=queue, selector=selector, arg=arg, timeout=timeout)
        return cast(list[SendResult], self._life.run(sending))

    def recall(self, handle: str, *, timeout: float | None = None) -> str:
        """Take back a timed message before it is due, by the `recall_handle` of its result; return its id.

        Success means that the broker accepted the recall: one second before the due time, or earlier, it is in time. A
        broken handle, one of a message that is due, and a broker that does not recall (Apache's before 5.3.2, or
        without `recallMessageEnable`) raise.
        """
        return cast(str, self._life.run(self._aio.recall(handle, timeout=timeout)))

    def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
        timeout: float | None = None,
    ) -> StoredMessage:
        """Send *message*, and wait for a consumer's `reply`.

        *timeout* covers the round trip. Raise `RequestTimeoutError` if no reply comes.
        """
        asking = self._aio.request(message, queue=queue, selector=selector, arg=arg, timeout=timeout)
        return cast(StoredMessage, self._life.run(asking))

    def reply(
        self,
        request: StoredMessage,
        body: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Reply to a *request* that a consumer got. Raise `SendFailed` if the requester cannot be reached any more."""
        replying = self._aio.reply(request, body, properties=properties, timeout=timeout)
        return cast(SendResult, self._life.run(replying))

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the writable queues of *topic*, in the order in which selectors get them."""
        return cast(list[MessageQueue], self._life.run(self._aio.queues(topic)))


class TransactionProducer(Producer):
    """Sends messages in transactions, and ordinary messages as `Producer` does.

        producer = TransactionProducer("orders", namesrv="127.0.0.1:9876")

        @producer.check
        def how_did_it_end(message):                              # called when the broker has not received the end
            return TransactionState.COMMIT if exists(message.message_id) else TransactionState.ROLLBACK

        with producer:
            producer.send_in_transaction(message, write_order)

    Both may be `def` or `async def`; the former run in threads. An exception or None means that the state is unknown.
    """

    _aio: AsyncTransactionProducer

    def __init__(
        self,
        group: str,
        *,
        check: Check | None = None,
        config: ClientConfig | None = None,
        settings: ProducerConfig | None = None,
        hooks: Sequence[SendHook | EndTransactionHook] = (),
        **options: Unpack[ProducerOptions],
    ) -> None:
        aio = AsyncTransactionProducer(group, check=check, config=config, settings=settings, hooks=hooks, **options)
        self._wrap(aio)

    def check(self, function: Check) -> Check:
        """Register *function*, which returns the state of a message's transaction; a decorator."""
        return self._aio.check(function)

    def send_in_transaction(
        self, message: Message, execute: Execute, *, timeout: float | None = None
    ) -> TransactionResult:
        """Store *message* as a half message, run *execute*, then commit or roll back according to its result.

        *execute* gets the message and the result of sending it; `check` is called with the same `message_id`.
        """
        sending = self._aio.send_in_transaction(message, execute, timeout=timeout)
        return cast(TransactionResult, self._life.run(sending))
