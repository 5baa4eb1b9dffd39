"""A broker that answers heartbeats when a test lets it, and remembers in which order it was told what."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hanabi.remoting.address import format_address
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.remoting.transport.server import RemotingServer
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import Command
from hanabi.wire.header import NoHeader


class SlowHeartbeats:
    """`events`: "beat" when a heartbeat comes, "answered" when it is, "left" when somebody unregisters."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.answers = asyncio.Event()  # heartbeats are answered while this is set
        self.address = ""

    async def beat(self, header: NoHeader, request: Command, connection: Connection) -> Reply:
        self.events.append("beat")
        await self.answers.wait()
        self.events.append("answered")
        return Reply()

    def left(self, header: NoHeader, request: Command, connection: Connection) -> Reply:
        self.events.append("left")
        return Reply()


@asynccontextmanager
async def slow_heartbeats() -> AsyncIterator[SlowHeartbeats]:
    """Listen on a free port: give clients its address in their address map."""
    broker = SlowHeartbeats()
    handlers: dict[int, Handler] = {
        RequestCode.HEART_BEAT: Handler(NoHeader, broker.beat),
        RequestCode.UNREGISTER_CLIENT: Handler(NoHeader, broker.left),
    }
    server = RemotingServer(handlers)
    broker.address = format_address(await server.start("127.0.0.1", 0))
    try:
        yield broker
    finally:
        broker.answers.set()
        await server.stop(0.0)
