"""OpenTelemetry spans: one around each send, one around each call of a listener, linked across the broker.

    telemetry = OpenTelemetry()
    Producer("shop", namesrv=..., hooks=[telemetry])
    PushConsumer("billing", namesrv=..., hooks=[telemetry])

The context travels in the properties of the message, as the program's propagator writes it: `traceparent` by default. A
listener runs inside its span. With one message it is a child of the span that sent it; with several it links to theirs.
Names are those of OpenTelemetry's conventions for messaging. Needs the extra `otel`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from hanabi.client.hooks import ConsumeContext, MessageKind, SendContext
from hanabi.errors import MQError

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

NAME: Final = "hanabi"
_NOTE: Final = "otel"
_KINDS: Final = {
    MessageKind.NORMAL: "normal",
    MessageKind.DELAY: "delay",
    MessageKind.TRANSACTION_HALF: "transaction",
    MessageKind.TRANSACTION_COMMIT: "transaction",
}


class OpenTelemetry:
    """Hook for sends and consumption. *provider* makes the tracer; it defaults to the program's own."""

    def __init__(self, provider: "TracerProvider | None" = None) -> None:
        try:
            from opentelemetry import context, propagate, trace
        except ImportError as error:
            raise MQError(
                "opentelemetry-api is not installed; it comes with: pip install '.[otel]' in a clone of Hanabi"
            ) from error
        self._context, self._propagate, self._trace = context, propagate, trace
        self._tracer = trace.get_tracer(NAME, tracer_provider=provider)

    # Sending

    def before_send(self, context: SendContext) -> None:
        message = context.messages[0]
        attributes: dict[str, Any] = {
            "messaging.system": "rocketmq",
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.destination.name": message.topic,
            "messaging.client.id": context.client_id,
            "messaging.rocketmq.message.type": _KINDS[context.kind],
        }
        if len(context.messages) > 1:
            attributes["messaging.batch.message_count"] = len(context.messages)
        else:
            attributes["messaging.message.body.size"] = len(message.body)
            attributes |= _named(message.tags, message.keys)
        span = self._tracer.start_span(
            f"send {message.topic}", kind=self._trace.SpanKind.PRODUCER, attributes=attributes
        )
        context.notes[_NOTE] = span
        self._propagate.inject(context.properties, context=self._trace.set_span_in_context(span))

    def after_send(self, context: SendContext) -> None:
        span: Span | None = context.notes.get(_NOTE)
        if span is None:
            return
        if context.message_id and len(context.messages) == 1:
            span.set_attribute("messaging.message.id", context.message_id)
        if context.broker_address:
            host, _, port = context.broker_address.rpartition(":")
            span.set_attribute("server.address", host)
            if port.isdigit():
                span.set_attribute("server.port", int(port))
        if context.result is not None:
            span.set_attribute("messaging.destination.partition.id", str(context.result.queue.queue_id))
            span.set_attribute("messaging.rocketmq.send_status", context.result.status.value)
        self._end(span, context.error)

    # Consuming

    def before_consume(self, context: ConsumeContext) -> None:
        trace = self._trace
        first = context.messages[0]
        parents = [self._propagate.extract(message.properties) for message in context.messages]
        senders = [trace.get_current_span(parent).get_span_context() for parent in parents]
        attributes: dict[str, Any] = {
            "messaging.system": "rocketmq",
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": context.queue.topic,
            "messaging.destination.partition.id": str(context.queue.queue_id),
            "messaging.consumer.group.name": context.group,
            "messaging.client.id": context.client_id,
        }
        if len(context.messages) > 1:
            attributes["messaging.batch.message_count"] = len(context.messages)
        else:
            attributes["messaging.message.id"] = first.message_id
            attributes["messaging.message.body.size"] = len(first.body)
            attributes |= _named(first.tags, first.keys)
        span = self._tracer.start_span(
            f"process {context.queue.topic}",
            context=parents[0] if len(parents) == 1 else None,
            kind=trace.SpanKind.CONSUMER,
            attributes=attributes,
            links=[trace.Link(sender) for sender in senders if sender.is_valid] if len(senders) > 1 else None,
        )
        token = self._context.attach(trace.set_span_in_context(span))
        context.notes[_NOTE] = (span, token)

    def after_consume(self, context: ConsumeContext) -> None:
        note = context.notes.get(_NOTE)
        if note is None:
            return
        span, token = note
        self._context.detach(token)
        if not context.success and context.error is None:
            span.set_status(self._trace.StatusCode.ERROR, context.outcome.name)
        self._end(span, context.error)

    def _end(self, span: "Span", error: BaseException | None) -> None:
        if error is not None:
            span.record_exception(error)
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(self._trace.StatusCode.ERROR, str(error))
        span.end()


def _named(tags: str | None, keys: Sequence[str]) -> dict[str, Any]:
    """Return the attributes for the message's tags and keys."""
    named: dict[str, Any] = {}
    if tags is not None:
        named["messaging.rocketmq.message.tag"] = tags
    if keys:
        named["messaging.rocketmq.message.keys"] = tuple(keys)
    return named
