"""Spans of OpenTelemetry from a producer to the listener, over a broker of ours."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hanabi.client.consumer.push.consumer import PushConsumer
from hanabi.client.hooks import SendContext
from hanabi.client.observe.otel import OpenTelemetry
from hanabi.client.producer.producer import Producer
from hanabi.errors import MQError, SendFailed
from hanabi.message import Message, StoredMessage
from hanabi.testing.cluster import running_cluster
from hanabi.testing.waiting import eventually


class Spans:
    """A provider of spans that remembers them."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def spans() -> Iterator[Spans]:
    made = Spans()
    yield made
    made.provider.shutdown()


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_the_span_of_a_listener_is_a_child_of_the_one_that_sent(tmp_path: Path, spans: Spans, kind: str) -> None:
    current: list[trace.SpanContext] = []
    got: list[StoredMessage] = []

    def see(messages: list[StoredMessage]) -> None:
        current.append(trace.get_current_span().get_span_context())
        got.extend(messages)

    async def see_async(messages: list[StoredMessage]) -> None:
        await asyncio.sleep(0)
        see(messages)

    telemetry = OpenTelemetry(spans.provider)
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("Orders", queues=1)
        consumer = PushConsumer("billing", config=cluster.config(), consume_from="first", hooks=[telemetry])
        consumer.subscribe("Orders")
        if kind == "def":
            consumer.listener(see)
        else:
            consumer.listener(see_async)
        async with consumer, Producer("shop", config=cluster.config(), hooks=[telemetry]) as producer:
            message = Message("Orders", b"12345", tags="paid", keys=["k"], properties={"mine": "stays"})
            result = await producer.send(message)
            await eventually(lambda: spans.named("process Orders"))
        (sent,), (processed,) = spans.named("send Orders"), spans.named("process Orders")
        assert sent.attributes is not None
        assert processed.attributes is not None
        assert processed.parent is not None
        assert (processed.parent.span_id, processed.context.trace_id) == (
            sent.context.span_id,
            sent.context.trace_id,
        )
        assert current == [processed.context]
        assert (sent.kind, processed.kind) == (trace.SpanKind.PRODUCER, trace.SpanKind.CONSUMER)
        assert sent.attributes["messaging.message.id"] == result.message_id
        assert sent.attributes["messaging.rocketmq.message.tag"] == "paid"
        assert processed.attributes["messaging.consumer.group.name"] == "billing"
        assert "traceparent" in got[0].properties
        assert got[0].properties["mine"] == "stays"
        assert message.properties == {"mine": "stays"}  # the program's own message is as it was

    assert not trace.get_current_span().get_span_context().is_valid


async def test_a_listener_of_several_messages_has_links_to_those_that_sent_them(tmp_path: Path, spans: Spans) -> None:
    telemetry = OpenTelemetry(spans.provider)
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("Orders", queues=1)
        async with Producer("shop", config=cluster.config(), hooks=[telemetry]) as producer:
            for _ in range(3):
                await producer.send(Message("Orders", b"x"))
        consumer = PushConsumer(
            "billing", config=cluster.config(), consume_from="first", consume_batch=10, hooks=[telemetry]
        )
        consumer.subscribe("Orders")

        @consumer.listener
        async def listen(messages: list[StoredMessage]) -> None: ...

        async with consumer:
            await eventually(lambda: spans.named("process Orders"))
        (processed,) = spans.named("process Orders")
        senders = {span.context.span_id for span in spans.named("send Orders")}
        assert {link.context.span_id for link in processed.links} == senders
        assert processed.parent is None


async def test_what_fails_is_an_error_in_its_span(tmp_path: Path, spans: Spans) -> None:
    telemetry = OpenTelemetry(spans.provider)
    async with running_cluster(tmp_path, auto_create_topic=False) as cluster:
        async with Producer("shop", config=cluster.config(), hooks=[telemetry]) as producer:
            with pytest.raises(MQError):
                await producer.send(Message("Nowhere", b"x"))
        (sent,) = spans.named("send Nowhere")
        assert sent.status.status_code is trace.StatusCode.ERROR
        assert sent.events[0].name == "exception"


async def test_a_listener_that_raises_is_an_error_in_its_span(tmp_path: Path, spans: Spans) -> None:
    telemetry = OpenTelemetry(spans.provider)
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("Orders", queues=1)
        async with Producer("shop", config=cluster.config()) as producer:
            await producer.send(Message("Orders", b"x"))
        consumer = PushConsumer("billing", config=cluster.config(), consume_from="first", hooks=[telemetry])
        consumer.subscribe("Orders")

        @consumer.listener
        def listen(messages: list[StoredMessage]) -> None:
            raise LookupError("no such customer")

        async with consumer:
            await eventually(lambda: spans.named("process Orders"))
        processed = spans.named("process Orders")[0]
        assert processed.status.description == "no such customer"
        assert processed.attributes is not None
        assert processed.attributes["error.type"] == "LookupError"
        assert processed.parent is None  # who sent it has no span


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(MQError, match=r"pip install '\.\[otel\]'"):
        OpenTelemetry()


def test_an_end_without_a_beginning_is_nothing() -> None:
    OpenTelemetry().after_send(SendContext(group="g", messages=[Message("T", b"x")], error=SendFailed("x", topic="T")))
