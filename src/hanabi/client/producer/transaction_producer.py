"""Transaction producer for asyncio: a message becomes visible together with a local transaction, or not at all.

    half message stored ─> the program's own work ─> commit or roll back
                           │ no end received ──────> the broker asks (39): the program looks up the state

Agrees with Java's TransactionMQProducer and DefaultMQProducerImpl.sendMessageInTransaction, checkTransactionState.
"""

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Final, TypeAlias, Unpack

import msgspec

from hanabi.client.config import ClientConfig
from hanabi.client.consumer.listening.listener_threads import ListenerThreads
from hanabi.client.hooks import EndTransactionContext, EndTransactionHook, MessageKind, SendHook, call_hooks
from hanabi.client.namespace import unwrap
from hanabi.client.options import ProducerOptions
from hanabi.client.producer.config import ProducerConfig
from hanabi.client.producer.producer import Producer, Running
from hanabi.client.producer.routing.selectors import chooser
from hanabi.client.send_result import SendResult, SendStatus, TransactionResult, TransactionState
from hanabi.client.validation import check_kind
from hanabi.errors import ConfigError, InvalidMessage, MQError
from hanabi.message import Message, StoredMessage
from hanabi.wire.headers.transaction import CheckTransactionStateHeader, EndTransactionHeader
from hanabi.wire.message import property_names as names
from hanabi.wire.message import sysflag
from hanabi.wire.message.message_id import decode_offset_id

State: TypeAlias = TransactionState | None  # None: unknown
Execute: TypeAlias = Callable[[Message, SendResult], State | Awaitable[State]]
Check: TypeAlias = Callable[[StoredMessage], State | Awaitable[State]]

THREADS: Final = 8  # for functions that are not `async def`
THREADS_END_SECONDS: Final = 0.1  # for idle threads to end

logger = logging.getLogger(__name__)


class TransactionProducer(Producer):
    """Sends messages in transactions, and ordinary messages as `Producer` does.

        producer = TransactionProducer("orders", namesrv="127.0.0.1:9876")

        @producer.check
        async def how_did_it_end(message):                        # called when the broker has not received the end
            return TransactionState.COMMIT if await exists(message.message_id) else TransactionState.ROLLBACK

        async with producer:
            await producer.send_in_transaction(message, write_order)

    Both may be `def` or `async def`; the former run in threads. An exception or None means that the state is unknown.
    """

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
        super().__init__(group, config=config, settings=settings, hooks=hooks, **options)
        self._check = check
        self._warned_of_none = False
        self._threads: ListenerThreads | None = None
        self._under_way: set[asyncio.Future[None]] = set()

    def check(self, function: Check) -> Check:
        """Register *function*, which returns the state of a message's transaction; a decorator."""
        if self._check is not None and self._check is not function:
            raise ConfigError(f"{self.what} has a check already: {self._check!r}")
        self._check = function
        return function

    async def _join(self, undo: AsyncExitStack) -> None:
        if self._check is None:
            raise MQError(
                f"{self.what} has no `check`: register one with @producer.check, as brokers ask for the state of a "
                "transaction whose end they have not received"
            )
        await super()._join(undo)
        self._threads = ListenerThreads(THREADS, f"hanabi transactions of {self.group}")

    async def _finish(self, seconds: float) -> None:
        """Let started transactions end; a function that never returns is left behind, and the broker asks another
        producer.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        threads = self._threads
        try:
            if self._under_way:
                await asyncio.wait(self._under_way, timeout=seconds)
        finally:
            self._threads = None
            if threads is not None:
                threads.dismiss()
        if threads is not None and not await threads.close(max(ends - loop.time(), THREADS_END_SECONDS)):
            logger.warning("group %s: a transaction's function has not returned and is left behind", self.group)

    def _drop(self) -> None:
        super()._drop()
        threads, self._threads = self._threads, None
        self._under_way.clear()
        if threads is not None:
            threads.dismiss()

    async def send_in_transaction(
        self,
        message: Message,
        execute: Execute,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - of sending, not of executing
    ) -> TransactionResult:
        """Store *message* as a half message, run *execute*, then commit or roll back according to its result.

        *execute* gets the message and the result of sending it; `check` is called with the same `message_id`.
        """
        check_kind(message)
        if message.is_delayed:
            raise InvalidMessage(f"topic {message.topic}: a message of a transaction cannot be delayed")
        running = self._must_run()
        with self._awaited_by_shutdown():
            return await self._run_transaction(running, message, execute, timeout)

    @contextmanager
    def _awaited_by_shutdown(self) -> Iterator[None]:
        under_way: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._under_way.add(under_way)
        try:
            yield
        finally:
            self._under_way.discard(under_way)
            under_way.set_result(None)

    async def _run_transaction(
        self,
        running: Running,
        message: Message,
        execute: Execute,
        timeout: float | None,  # noqa: ASYNC109
    ) -> TransactionResult:
        half = {names.TRANSACTION_PREPARED: "true", names.PRODUCER_GROUP: self._wire_group}
        seconds = self.settings.send_timeout_s if timeout is None else timeout
        kind, bits = MessageKind.TRANSACTION_HALF, sysflag.TRANSACTION_PREPARED
        choose = chooser(message, None, None, None)
        sent = await self._send(running, message, kind, seconds, extra=half, sys_flag=bits, choose=choose)
        sent = msgspec.structs.replace(sent, transaction_id=sent.transaction_id or sent.message_id)
        error: Exception | None = None
        if sent.status is not SendStatus.SEND_OK:
            state = TransactionState.ROLLBACK  # not stored safely: skip work that would need it
        else:
            state, error = await self._ask(execute, message, sent)
        header = EndTransactionHeader(
            producer_group=self._wire_group,
            topic=running.packing.topic_on_wire(message.topic),
            tran_state_table_offset=sent.queue_offset,
            commit_log_offset=decode_offset_id(sent.offset_message_id).log_offset,
            commit_or_rollback=int(state),
            msg_id=sent.message_id,
            transaction_id=sent.transaction_id,
            target_broker=sent.queue.broker_name,
        )
        await self._send_end(running, running.core.routes.master_of(sent.queue.broker_name), header, message)
        return TransactionResult(send=sent, state=state, error=error)

    async def check_transaction(
        self, header: CheckTransactionStateHeader, message: StoredMessage, address: str
    ) -> bool:
        """Answer a broker's check-back: see `members.ProducerMember`."""
        running = self._running
        if self._check is None or running is None:
            return False
        topic = message.topic
        known = msgspec.structs.replace(message, topic=unwrap(self.config.namespace, topic))
        with self._awaited_by_shutdown():
            state, _ = await self._ask(self._check, known)
        answer = EndTransactionHeader(
            producer_group=self._wire_group,
            topic=topic,
            tran_state_table_offset=header.tran_state_table_offset,
            commit_log_offset=header.commit_log_offset,
            commit_or_rollback=int(state),
            from_transaction_check=True,
            msg_id=message.message_id,
            transaction_id=header.transaction_id,
            target_broker=header.target_broker,
        )
        await self._send_end(running, address, answer, known)
        return True

    async def _ask(
        self, function: Callable[..., State | Awaitable[State]], *arguments: object
    ) -> tuple[TransactionState, Exception | None]:
        """Call *function*; return its state, and the exception if it raised one."""
        try:
            state = await self._call(function, *arguments)
            if state is not None and not isinstance(state, TransactionState):
                raise MQError(f"{function!r} must return a TransactionState or None, not {state!r}")
        except Exception as error:  # noqa: BLE001 - of the program: it is in the result, and the broker will ask
            logger.warning(
                "group %s: the state of a transaction is unknown, the broker will ask again: %r", self.group, error
            )
            return TransactionState.UNKNOWN, error
        if state is None:
            self._warn_of_none(function)
            return TransactionState.UNKNOWN, None
        return state, None

    def _warn_of_none(self, function: Callable[..., object]) -> None:
        """Warn once about None: a forgotten `return` goes unnoticed, and the messages are never delivered."""
        if not self._warned_of_none:
            self._warned_of_none = True
            logger.warning(
                "group %s: %r returned None, so the state of its transaction is unknown, and the broker asks `check`."
                " Return TransactionState.COMMIT or ROLLBACK, or UNKNOWN to be asked (logged once)",
                self.group,
                function,
            )

    async def _call(self, function: Callable[..., State | Awaitable[State]], *arguments: object) -> State:
        if inspect.iscoroutinefunction(function) or self._threads is None:
            answer = function(*arguments)
        else:
            answer = await _in_thread(self._threads, function, *arguments)
        return await answer if inspect.isawaitable(answer) else answer

    async def _send_end(
        self, running: Running, address: str | None, header: EndTransactionHeader, message: Message | StoredMessage
    ) -> None:
        """Send the end of the transaction. A lost one is harmless: the broker asks."""
        try:
            if address is None:
                raise MQError(f"no master of {header.target_broker} is known")
            await running.core.api.end_transaction(address, header, self.settings.send_timeout_s)
        except MQError as error:
            logger.warning(
                "group %s: the end of transaction %s could not be sent, the broker will ask: %s",
                self.group,
                header.msg_id,
                error,
            )
            return
        if running.end_hooks:
            context = EndTransactionContext(
                group=self.group,
                message=message,
                message_id=header.msg_id,
                transaction_id=header.transaction_id or header.msg_id,
                broker_address=address,
                state=TransactionState(header.commit_or_rollback),
                from_check=header.from_transaction_check,
                client_id=running.core.client_id,
            )
            call_hooks([hook.end_transaction for hook in running.end_hooks], context)


async def _in_thread(threads: ListenerThreads, function: Callable[..., Any], *arguments: object) -> Any:
    """Run *function* in a thread with the caller's context variables; return its result."""
    returned: list[Any] = []
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    context = contextvars.copy_context()

    def ended(error: BaseException | None) -> None:
        if future.done():  # the caller has given up
            return
        if error is None:
            future.set_result(returned[0])
        elif isinstance(error, Exception) and not isinstance(error, StopIteration):
            future.set_exception(error)
        else:  # SystemExit and the like end a thread, not the loop; and no future can hold a StopIteration
            future.set_exception(MQError(f"{function!r} ended with {error!r}"))

    threads.submit(lambda: returned.append(context.run(function, *arguments)), ended)
    return await future
