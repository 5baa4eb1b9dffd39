"""Send loop: sends one message until a broker has stored it or no attempt is left.

    room (back_pressure) ─> queue (publishing) ─> request (api) ─> result, or another broker (send_attempts)

The caller's deadline covers everything: waiting for room, finding the route and all attempts. The fast path has no
task, no timer besides the request's own, no exception. Agrees with Java's DefaultMQProducerImpl.sendDefaultImpl,
sendSelectImpl and sendKernelImpl.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from hanabi.client.cluster.api import SENT, Api
from hanabi.client.producer.back_pressure import BackPressure
from hanabi.client.producer.config import ProducerConfig
from hanabi.client.producer.outgoing import Outgoing
from hanabi.client.producer.retry_policy import (
    NoTimeLeftError,
    doubts_route,
    failure,
    is_busy,
    is_worth_a_try,
    pause_before,
)
from hanabi.client.producer.routing.fault_tolerance import FaultTolerance
from hanabi.client.producer.routing.selectors import Choose
from hanabi.client.producer.topic_publisher import TopicPublisher, TopicPublishers
from hanabi.client.send_result import STATUS_BY_CODE, SendResult, SendStatus
from hanabi.clock import wall_ms
from hanabi.errors import (
    ConnectError,
    MQError,
    SendAttempt,
    SendFailed,
    TooManyRequestsError,
    TransportError,
)
from hanabi.message import MessageQueue
from hanabi.wire.command import Command
from hanabi.wire.headers.send import SendMessageReplyHeader

_ONEWAY_PAUSE_SECONDS: Final = 0.002  # before retrying a connection whose write buffer is full


class SendEnded(Protocol):
    """Receiver of the result of a send that has no waiting task."""

    def finish(self, result: SendResult) -> None:
        """Report that the message is stored."""
        ...

    def go_on(self, rest: Coroutine[Any, Any, SendResult]) -> None:
        """Continue with *rest*, which must be awaited and returns the result."""
        ...


class _UnderWay(NamedTuple):
    """A started send, and the state for its retries."""

    outgoing: Outgoing
    publishing: TopicPublisher
    queue: MessageQueue | None  # the only queue to try, if it was chosen
    target: MessageQueue
    began: float
    timeout: float
    patient: bool = False  # waiting for room does not count towards its timeout


class Sender:
    """Sender of one producer's encoded messages. *group* is the name on the wire."""

    def __init__(
        self,
        api: Api,
        publishings: TopicPublishers,
        gate: BackPressure,
        settings: ProducerConfig,
        group: str,
        faults: FaultTolerance | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._api, self._publishings, self._gate, self._faults = api, publishings, gate, faults
        self._settings, self._group, self._chance = settings, group, chance
        self._default_topic, self._default_queues = settings.default_topic, str(settings.default_topic_queues)
        self._now = asyncio.get_running_loop().time

    async def deliver(
        self,
        outgoing: Outgoing,
        timeout: float,  # noqa: ASYNC109 - it covers all attempts
        queue: MessageQueue | None = None,
        choose: Choose | None = None,
        first: str | None = None,
        *,
        patient: bool = False,
    ) -> SendResult:
        """Send to *queue*, to the one that *choose* picks, or else to any broker that accepts it.

        *first* is a broker to try first. For a *patient* send, the timeout starts when there is room.
        """
        began = self._now()
        size = len(outgoing.body)
        if not self._gate.enter_at_once(size):
            await self._gate.enter(size, None if patient else timeout)
            if patient:
                began = self._now()
        try:
            publishing = self._publishings.known(outgoing.topic)
            if publishing is None:
                publishing = await self._find(outgoing.topic, began, timeout)
            if choose is not None:
                queue = choose(publishing.queues)
            target = queue or (first and publishing.at(first)) or publishing.next()
            return await self._deliver_to(outgoing, publishing, queue, target, began, timeout, patient)
        finally:
            self._gate.leave(size)

    async def _deliver_to(
        self,
        outgoing: Outgoing,
        publishing: TopicPublisher,
        queue: MessageQueue | None,
        target: MessageQueue,
        began: float,
        timeout: float,  # noqa: ASYNC109
        patient: bool = False,
    ) -> SendResult:
        """Send to *target*, and on failure to any other broker for which a retry makes sense."""
        sent = self._now()
        left = self._attempt_timeout(began + timeout - sent, self._settings.retries)
        try:
            result = await self._attempt(outgoing, publishing, target, left)
        except MQError as error:
            under_way = _UnderWay(outgoing, publishing, queue, target, began, timeout, patient)
            return await self._insist(under_way, error, sent)
        if result.status is not SendStatus.SEND_OK and self._settings.retry_not_stored:
            under_way = _UnderWay(outgoing, publishing, queue, target, began, timeout, patient)
            return await self._insist(under_way, result, sent)
        return result

    def _attempt_timeout(self, left: float, tries_left: int) -> float:
        """Return the timeout of an attempt that may be followed by this many retries."""
        if self._settings.attempt_timeout_s is not None and tries_left:
            return min(left, self._settings.attempt_timeout_s)
        return left

    def begin(
        self, outgoing: Outgoing, timeout: float, queue: MessageQueue | None, choose: Choose | None, ended: SendEnded
    ) -> bool:
        """Send in this loop iteration, without a waiting task, and call *ended* in the iteration of the response.
        Otherwise as `deliver`. False: something has to be awaited first, so call `deliver`.
        """
        size, publishing = len(outgoing.body), self._publishings.known(outgoing.topic)
        if publishing is None or timeout <= 0 or not self._gate.enter_at_once(size):
            return False
        began = self._now()
        try:
            if choose is not None:
                queue = choose(publishing.queues)
            target = queue or publishing.next()
            address = publishing.master_of(target.broker_name)
            under_way = _UnderWay(outgoing, publishing, queue, target, began, timeout)
            at_once = address is not None and self._api.ask_at_once(
                address,
                outgoing.code,
                self._header(outgoing, target),
                outgoing.body,
                self._attempt_timeout(timeout, self._settings.retries),
                partial(self._answered, under_way, address, ended),
            )
        except BaseException:
            self._gate.leave(size)
            raise
        if not at_once:
            ended.go_on(self._rest(under_way, None))
        return True

    def _answered(
        self, under_way: "_UnderWay", address: str, ended: SendEnded, answer: Command | TransportError
    ) -> None:
        """Handle the end of the attempt that `begin` started. Must not raise: the connection calls it."""
        outgoing, publishing, _, target, began, _, _ = under_way
        try:
            reply = self._api.outcome(address, outgoing.code, answer, SENT)
            result = _result(outgoing, target, reply)
        except MQError as error:
            self._note(publishing, target, began, failed=True)
            ended.go_on(self._rest(under_way, error))
            return
        self._note(publishing, target, began, failed=False)
        if result.status is not SendStatus.SEND_OK and self._settings.retry_not_stored:
            ended.go_on(self._rest(under_way, result))
        else:
            self._gate.leave(len(outgoing.body))
            ended.finish(result)

    async def _rest(self, under_way: "_UnderWay", outcome: SendResult | MQError | None) -> SendResult:
        """Finish a started send after its first attempt ended in *outcome*; None: that attempt has yet to be made."""
        try:
            if outcome is None:
                return await self._deliver_to(*under_way)
            return await self._insist(under_way, outcome, under_way.began)
        finally:
            self._gate.leave(len(under_way.outgoing.body))

    async def deliver_oneway(
        self,
        outgoing: Outgoing,
        timeout: float,  # noqa: ASYNC109
        queue: MessageQueue | None = None,
        choose: Choose | None = None,
    ) -> None:
        """Send without a response. Known failures are raised; later ones go unnoticed."""
        began = self._now()
        publishing = self._publishings.known(outgoing.topic)
        if publishing is None:
            publishing = await self._find(outgoing.topic, began, timeout)
        if choose is not None:
            queue = choose(publishing.queues)
        target = queue or publishing.next()
        try:
            while True:
                try:
                    left = began + timeout - self._now()
                    address = _master(publishing, target.broker_name)
                    header = self._header(outgoing, target)
                    await self._api.send_oneway(address, header, outgoing.body, left, code=outgoing.code)
                    return
                except TooManyRequestsError:  # the broker reads slower than we write
                    if left <= _ONEWAY_PAUSE_SECONDS:
                        raise
                    await asyncio.sleep(_ONEWAY_PAUSE_SECONDS)
        except MQError as error:
            attempt = self._failed(outgoing, publishing, target, error, began)
            raise failure(target.topic, [attempt], self._now() - began, timeout) from error
        finally:
            publishing.answered(target.broker_name)

    async def _find(self, topic: str, began: float, timeout: float) -> TopicPublisher:  # noqa: ASYNC109
        try:
            async with asyncio.timeout_at(began + timeout):
                return await self._publishings.find(topic)
        except TimeoutError as error:
            raise SendFailed(
                f"a message of topic {topic} could not be sent: no name server returned a route within "
                f"{timeout:.3g} s. Are the name servers up, and can they be reached from here?",
                topic=topic,
            ) from error

    async def _attempt(
        self,
        outgoing: Outgoing,
        publishing: TopicPublisher,
        target: MessageQueue,
        timeout: float,  # noqa: ASYNC109
    ) -> SendResult:
        """Make one attempt to send to *target*."""
        began = self._now()
        failed = True
        try:
            address = _master(publishing, target.broker_name)
            if timeout <= 0:
                raise NoTimeLeftError(f"no time is left to ask {target.broker_name} ({address})")
            header = self._header(outgoing, target)
            answer = await self._api.send_message(address, header, outgoing.body, timeout, code=outgoing.code)
            result = _result(outgoing, target, answer)
            failed = False
        finally:
            self._note(publishing, target, began, failed=failed)
        return result

    def _note(self, publishing: TopicPublisher, target: MessageQueue, began: float, *, failed: bool) -> None:
        """Record the latency of an attempt that started at that time."""
        if publishing.first is not None:
            publishing.answered(target.broker_name)
        if self._faults is not None:
            self._faults.record(target.broker_name, self._now() - began, failed=failed)

    async def _insist(self, under_way: "_UnderWay", outcome: SendResult | MQError, sent: float) -> SendResult:
        """Retry after the first attempt, made at the time *sent*, ended in *outcome*: as long as that makes sense and
        time is left. A busy broker is retried until it accepts: it has stored nothing, and will recover.
        """
        outgoing, publishing, queue, target, began, timeout, _ = under_way
        ends = began + timeout
        attempts: list[SendAttempt] = []
        tried: list[str] = []
        stored: SendResult | None = None
        tries_left = self._settings.retries
        while True:
            tried.append(target.broker_name)
            if isinstance(outcome, MQError):
                attempts.append(self._failed(outgoing, publishing, target, outcome, sent))
            elif outcome.status is SendStatus.SEND_OK:
                return outcome
            else:
                stored = outcome
            publishing = self._publishings.known(outgoing.topic) or publishing
            target = queue or publishing.another(tried)
            times = tried.count(target.broker_name)
            if not tries_left or not is_worth_a_try(outcome, is_fixed=queue is not None, tried_already=times > 0):
                break
            busy = is_busy(outcome)
            pause = pause_before(times, busy=busy, chance=self._chance())
            if self._now() + pause >= ends:
                break
            if pause:
                await asyncio.sleep(pause)
                publishing = self._publishings.known(outgoing.topic) or publishing  # its broker may have moved
            try:
                if busy:
                    ends += await self._give_way(under_way, ends)
                else:
                    tries_left -= 1
                sent = self._now()
                left = self._attempt_timeout(ends - sent, tries_left)
                outcome = await self._attempt(outgoing, publishing, target, left)
            except MQError as error:
                outcome = error
        if stored is not None:
            return stored
        raise failure(target.topic, attempts, self._now() - began, timeout) from attempts[-1].error

    async def _give_way(self, under_way: "_UnderWay", ends: float) -> float:
        """Wait for room after the limit was reduced. Return the extension of the deadline."""
        began, size = self._now(), len(under_way.outgoing.body)
        if under_way.patient:
            await self._gate.give_way(size, None)
            return self._now() - began
        await self._gate.give_way(size, ends - began)
        return 0.0

    def _failed(
        self, outgoing: Outgoing, publishing: TopicPublisher, target: MessageQueue, error: MQError, sent: float
    ) -> SendAttempt:
        if is_busy(error):
            self._gate.slow_down(sent, self._now())
        if doubts_route(error):
            self._publishings.doubt(outgoing.topic)
        return SendAttempt(target.broker_name, publishing.master_of(target.broker_name), error)

    def _header(self, outgoing: Outgoing, queue: MessageQueue) -> dict[str, str]:
        """Return the fields of `wire.headers.send.SendMessageV2Header`, inlined: this runs for every message."""
        fields = {
            "a": self._group,
            "b": outgoing.topic,
            "c": self._default_topic,
            "d": self._default_queues,
            "e": str(queue.queue_id),
            "f": str(outgoing.sys_flag),
            "g": str(wall_ms()),
            "h": str(outgoing.flag),
            "i": outgoing.properties,
            "j": str(outgoing.reconsume_times),
            "k": "false",
            "m": "true" if outgoing.is_batch else "false",
            "n": queue.broker_name,
        }
        if outgoing.max_reconsume_times is not None:
            fields["l"] = str(outgoing.max_reconsume_times)
        return fields


def _result(outgoing: Outgoing, target: MessageQueue, answer: Command) -> SendResult:
    """Convert the response of the broker of *target* into a result."""
    reply = answer.header(SendMessageReplyHeader)
    if reply.queue_id != target.queue_id:
        target = MessageQueue(target.topic, target.broker_name, reply.queue_id)
    return SendResult(
        status=STATUS_BY_CODE[answer.code],
        message_id=outgoing.message_id,
        queue=target,
        queue_offset=reply.queue_offset,
        offset_message_id=reply.msg_id,
        transaction_id=reply.transaction_id,
        region=reply.region,
        trace_on=reply.trace_on is not False,
        recall_handle=reply.recall_handle,
    )


def _master(publishing: TopicPublisher, broker_name: str) -> str:
    address = publishing.master_of(broker_name)
    if address is None:
        raise ConnectError(f"the name servers know no master of {broker_name} for this topic")
    return address
