"""Brokers that answer as a test wants, and a look at what real ones have stored."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from hanabi.client.cluster.api import Api
from hanabi.client.send_result import SendResult
from hanabi.message import MessageQueue, StoredMessage
from hanabi.remoting.address import format_address
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.remoting.transport.connector import Connector
from hanabi.remoting.transport.server import RemotingServer
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.header import NoHeader
from hanabi.wire.headers.send import SendMessageReplyHeader, SendMessageV2Header
from hanabi.wire.message.message_id import decode_offset_id
from hanabi.wire.message.record import decode_record
from hanabi.wire.message.stored import to_message

Answer = Callable[[SendMessageV2Header, bytes], Reply | Awaitable[Reply]]

SENDS = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)


def stored(header: SendMessageV2Header, _: bytes) -> Reply:
    """Answer as a broker that has it."""
    return Reply(
        header=SendMessageReplyHeader(
            msg_id="7F00000100002A9F0000000000000000", queue_id=header.queue_id, queue_offset=7
        )
    )


def refusing(code: int, remark: str) -> Answer:
    """Answer as a broker that does not want it."""
    return lambda header, body: Reply(code, remark)


def stored_with(code: ResponseCode) -> Answer:
    """Answer as a broker that has it, but not as safely as it should."""

    def answer(header: SendMessageV2Header, body: bytes) -> Reply:
        return Reply(code, header=stored(header, body).header)

    return answer


class Scripted:
    """A broker whose `answer` can be exchanged, with all that it was sent."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.sent: list[tuple[SendMessageV2Header, bytes]] = []
        self.address = ""
        self.server: RemotingServer | None = None

    async def kill(self) -> None:
        """Close every connection at once, answered or not."""
        if self.server is not None:
            await self.server.stop(0.0)
            self.server = None

    def take(self, header: SendMessageV2Header, request: Command, _: Connection) -> Reply | Awaitable[Reply]:
        self.sent.append((header, request.body))
        return self.answer(header, request.body)


@asynccontextmanager
async def scripted_broker(answer: Answer = stored, port: int = 0) -> AsyncIterator[Scripted]:
    """Yield a broker on a free *port*, or on this one. Clients reach it through the address map, in place of a real
    one."""
    broker = Scripted(answer)
    welcome = Handler(NoHeader, lambda *_: Reply())
    handlers: dict[int, Handler] = {code: Handler(SendMessageV2Header, broker.take) for code in SENDS}
    handlers |= {RequestCode.HEART_BEAT: welcome, RequestCode.UNREGISTER_CLIENT: welcome}
    broker.server = RemotingServer(handlers)
    broker.address = format_address(await broker.server.start("127.0.0.1", port))
    try:
        yield broker
    finally:
        await broker.kill()


async def look_up(address: str, result: SendResult) -> StoredMessage:
    """Return what the broker at *address* stored for *result*."""
    connector = Connector()
    try:
        record = await Api(connector).view_message(address, decode_offset_id(result.offset_message_id).log_offset)
    finally:
        await connector.close()
    return to_message(decode_record(record), broker_name=result.queue.broker_name)


async def until_it_has(address: str, queue: MessageQueue, count: int) -> None:
    """Wait until *queue* has so many messages."""
    connector = Connector()
    try:
        async with asyncio.timeout(60):
            while await Api(connector).get_max_offset(address, queue) < count:  # noqa: ASYNC110 - of a broker
                await asyncio.sleep(0.005)
    finally:
        await connector.close()
