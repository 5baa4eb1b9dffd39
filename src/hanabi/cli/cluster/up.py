"""A form of a cluster on this machine: its files, its processes, and their end."""

import asyncio
import sys
from collections.abc import Coroutine
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

from hanabi.cli.cluster.forms import Kind, Server, every_file, file_text
from hanabi.cli.logs.server_logs import RelayedLines
from hanabi.cli.serve.process import announce, stop_signal
from hanabi.errors import ConfigError
from hanabi.supervision.child import Child, Outlet
from hanabi.supervision.lines import named


def write_files(servers: list[Server]) -> None:
    """Write the configuration file of each server."""
    for server in every_file(servers):
        path = Path(server.file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file_text(server))


async def run_until_signal(servers: list[Server], hint: str) -> None:
    """Start the servers one kind after the other, print *hint*, and stop them in the opposite order at a signal."""
    stopped = stop_signal()
    with closing(RelayedLines()) as relayed:
        outlet = _Counting(relayed)
        async with AsyncExitStack() as stack:
            for kind in (Kind.NAMESRV, Kind.CONTROLLER, Kind.CONTAINER, Kind.BROKER):
                children = [_started(server, outlet, stack) for server in servers if server.kind is kind]
                if not await _unless(stopped, _all_ready(children)):
                    return
            if not await _unless(stopped, outlet.until(len(every_file(servers)))):
                return
            announce(hint)
            await stopped.wait()


class _Counting(Outlet):
    """An outlet that counts ready lines: a container prints one for each of its brokers."""

    def __init__(self, relayed: RelayedLines) -> None:
        super().__init__(self._announce, lambda name, line: relayed.write(named(name, line)))
        self._count = 0
        self._more = asyncio.Event()

    def _announce(self, line: str) -> None:
        announce(line)
        self._count += 1
        self._more.set()

    async def until(self, count: int) -> None:
        while self._count < count:
            self._more.clear()
            await self._more.wait()


def _started(server: Server, outlet: Outlet, stack: AsyncExitStack) -> Child:
    words = [sys.executable, "-m", "hanabi", *server.command, "--host", "127.0.0.1", "--with-stdin"]
    child = Child(server.name, words, outlet)
    child.start()
    stack.push_async_callback(child.stop)
    return child


async def _all_ready(children: list[Child]) -> None:
    for child in children:
        try:
            await child.until_ready()
        except ConfigError as error:
            raise ConfigError(f"{child.name} does not start: {error}") from error


async def _unless(stopped: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Await *work*; return False if a signal came first."""
    doing = asyncio.create_task(work)
    signalled = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait((doing, signalled), return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            await doing
            return True
        return False
    finally:
        for task in (doing, signalled):
            task.cancel()
        await asyncio.gather(doing, signalled, return_exceptions=True)
