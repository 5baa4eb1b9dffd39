"""A client of the gRPC port for tests: HTTP/2 by hand, so that it can also break the rules."""

import asyncio
import hashlib
import hmac
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Self

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.grpc.http2 import hpack
from hanabi.grpc.http2.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    HEAD,
    HEAD_BYTES,
    PREFACE,
    Kind,
    frame,
    settings_frame,
    window_update,
)
from hanabi.grpc.proto.messages import message_class, parse
from hanabi.grpc.proto.table import SERVICE
from hanabi.grpc.serving.limits import PortLimits
from hanabi.grpc.serving.port import BrokerPort
from hanabi.grpc.serving.replies import PREFIX, prefixed
from hanabi.testing.cluster import running_broker
from hanabi.testing.waiting import within
from hanabi.wire.bodies.topics import TopicConfig

WINDOW = 8 * 1024 * 1024


class Reply:
    """The reply of one call, as it arrives."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.fields: dict[str, str] = {}
        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        self.buffer = b""
        self.ended = asyncio.Event()
        self.reset: int | None = None

    def take(self, data: bytes) -> None:
        self.buffer += data
        while len(self.buffer) >= PREFIX.size:
            _, length = PREFIX.unpack_from(self.buffer)
            if len(self.buffer) < PREFIX.size + length:
                return
            self.messages.put_nowait(parse(self.name, self.buffer[PREFIX.size : PREFIX.size + length]))
            self.buffer = self.buffer[PREFIX.size + length :]

    async def next(self) -> Any:
        return await within(self.messages.get())

    @property
    def status(self) -> int:
        return int(self.fields["grpc-status"])


class GrpcPeer:
    """One connection. `updates` off: the client never widens a window."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, updates: bool = True) -> None:
        self._reader, self._writer, self._updates = reader, writer, updates
        self._decoder = hpack.Decoder(1 << 20)
        self._ids = count(1, 2)
        self.replies: dict[int, Reply] = {}
        self.goaway: tuple[int, str] | None = None
        self.pings: list[bytes] = []
        self.closed = asyncio.Event()
        self.metadata = {"x-mq-client-id": "test@1", "x-mq-language": "PYTHON"}
        self._task = asyncio.create_task(self._read())

    @classmethod
    async def open(
        cls, address: tuple[str, int], *, tls: ssl.SSLContext | None = None, window: int = WINDOW, updates: bool = True
    ) -> Self:
        reader, writer = await asyncio.open_connection(*address, ssl=tls)
        peer = cls(reader, writer, updates=updates)
        peer.send_raw(PREFACE + settings_frame({4: window}))  # type: ignore[dict-item]
        if updates:
            peer.send_raw(window_update(0, WINDOW))
        return peer

    def send_raw(self, data: bytes) -> None:
        self._writer.write(data)

    async def drain(self) -> None:
        await self._writer.drain()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._writer.close()
        with_errors = (OSError, ssl.SSLError)
        try:
            await self._writer.wait_closed()
        except with_errors:
            return

    def headers(self, method: str, metadata: dict[str, str] | None = None) -> bytes:
        fields = {
            ":method": "POST",
            ":scheme": "http",
            ":path": SERVICE + method,
            ":authority": "localhost",
            "content-type": "application/grpc",
            "te": "trailers",
            **self.metadata,
            **(metadata or {}),
        }
        return hpack.encode(fields.items())

    def start(self, method: str, reply: str, metadata: dict[str, str] | None = None) -> tuple[int, Reply]:
        """Begin a call; return its stream."""
        stream_id = next(self._ids)
        self.replies[stream_id] = Reply(reply)
        self.send_raw(frame(Kind.HEADERS, END_HEADERS, stream_id, self.headers(method, metadata)))
        return stream_id, self.replies[stream_id]

    def say(self, stream_id: int, data: bytes, *, ends: bool = False) -> None:
        for begin in range(0, len(data), 16_384):
            part = data[begin : begin + 16_384]
            is_last = begin + 16_384 >= len(data)
            self.send_raw(frame(Kind.DATA, END_STREAM if ends and is_last else 0, stream_id, part))

    def call_later(self, method: str, request: Any, metadata: dict[str, str] | None = None) -> Reply:
        name = "TelemetryCommand" if method == "Telemetry" else f"{method}Response"
        stream_id, reply = self.start(method, name, metadata)
        self.say(stream_id, prefixed(request.SerializeToString()), ends=True)
        return reply

    async def replies_to(self, method: str, request: Any, metadata: dict[str, str] | None = None) -> list[Any]:
        """Call; return all messages of the reply."""
        reply = self.call_later(method, request, metadata)
        await within(reply.ended.wait())
        assert reply.status == 0, reply.fields
        return [reply.messages.get_nowait() for _ in range(reply.messages.qsize())]

    async def call(self, method: str, request: Any, metadata: dict[str, str] | None = None) -> Any:
        """Call; return the only message of the reply."""
        (message,) = await self.replies_to(method, request, metadata)
        return message

    async def _read(self) -> None:
        try:
            while True:
                head = await self._reader.readexactly(HEAD_BYTES)
                high, low, kind, flags, stream_id = HEAD.unpack(head)
                payload = await self._reader.readexactly(high << 8 | low)
                self._take(kind, flags, stream_id, payload)
        except (asyncio.IncompleteReadError, OSError):
            self.closed.set()
            for reply in self.replies.values():
                reply.ended.set()

    def _take(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        reply = self.replies.get(stream_id)
        if kind == Kind.SETTINGS and not flags & ACK:
            self.send_raw(frame(Kind.SETTINGS, ACK, 0))
        elif kind == Kind.GOAWAY:
            self.goaway = int.from_bytes(payload[4:8], "big"), payload[8:].decode()
        elif kind == Kind.PING:
            self.pings.append(payload)
        elif reply is None:
            return
        elif kind == Kind.HEADERS:
            reply.fields.update(self._decoder.decode(payload))
            if flags & END_STREAM:
                reply.ended.set()
        elif kind == Kind.DATA:
            reply.take(payload)
            if self._updates and payload:
                self.send_raw(window_update(0, len(payload)) + window_update(stream_id, len(payload)))
        elif kind == Kind.RST_STREAM:
            reply.reset = int.from_bytes(payload, "big")
            reply.ended.set()


def new(name: str, /, **fields: Any) -> Any:
    """Return a message of `apache.rocketmq.v2`."""
    return message_class(name)(**fields)


def resource(name: str) -> Any:
    return new("Resource", name=name)


def message(topic: str, body: bytes = b"hello", number: int = 0, **system: Any) -> Any:
    """Return a message to be sent."""
    made = new("Message", topic=resource(topic), body=body)
    made.system_properties.message_id = f"id-{number}"
    made.system_properties.born_timestamp.seconds = 1_700_000_000
    for name, value in system.items():
        if isinstance(value, list):
            getattr(made.system_properties, name).extend(value)
        else:
            setattr(made.system_properties, name, value)
    return made


def send_request(*messages: Any) -> Any:
    return new("SendMessageRequest", messages=list(messages))


def receive_request(topic: str, group: str, **fields: Any) -> Any:
    made = new("ReceiveMessageRequest", group=resource(group), **{"batch_size": 32, **fields})
    made.message_queue.topic.name = topic
    made.message_queue.broker.name = "broker-a"
    made.filter_expression.type, made.filter_expression.expression = 1, "*"
    made.long_polling_timeout.seconds = 5
    if not made.auto_renew and not made.HasField("invisible_duration"):
        made.invisible_duration.seconds = 30
    return made


def ack_request(topic: str, group: str, *handles: str) -> Any:
    made = new("AckMessageRequest", group=resource(group), topic=resource(topic))
    for handle in handles:
        made.entries.add(receipt_handle=handle, message_id="m")
    return made


def signed(access_key: str, secret: str) -> dict[str, str]:
    """Return the metadata of a call that this account signs."""
    dated = "20261118T000000Z"
    digest = hmac.new(secret.encode(), dated.encode(), hashlib.sha1).hexdigest().upper()
    text = f"MQv2-HMAC-SHA1 Credential={access_key}, SignedHeaders=x-mq-date-time, Signature={digest}"
    return {"authorization": text, "x-mq-date-time": dated}


class Place:
    """A broker with its gRPC port, and one open connection to it."""

    def __init__(self, broker: Broker, port: BrokerPort, address: tuple[str, int], peer: GrpcPeer) -> None:
        self.broker, self.port, self.address, self.peer = broker, port, address, peer

    async def create_topic(self, name: str, *, queues: int = 4, message_type: str | None = None) -> str:
        attributes = {"message.type": message_type} if message_type is not None else None
        await self.broker.tables.topics.update(
            TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, attributes=attributes)
        )
        return name

    async def receive(self, topic: str, group: str, **fields: Any) -> list[Any]:
        """Receive; return the messages."""
        parts = await self.peer.replies_to("ReceiveMessage", receive_request(topic, group, **fields))
        return [part.message for part in parts if part.HasField("message")]


@asynccontextmanager
async def grpc_broker(
    home: Path,
    limits: PortLimits = PortLimits(),  # noqa: B008 - frozen
    **settings: Any,
) -> AsyncIterator[Place]:
    """Run a broker with a gRPC port."""
    config = BrokerConfig(broker_name="broker-a", **settings)
    async with running_broker(home, config) as broker:
        port = BrokerPort(broker, limits=limits)
        address = await port.start("127.0.0.1", 0)
        peer = await GrpcPeer.open(address)
        try:
            yield Place(broker, port, address, peer)
        finally:
            await peer.close()
            await port.stop()
