"""An event loop whose time is virtual: it jumps to the next timer, so that a minute of waiting takes no time.

Everything on it is deterministic: callbacks run in the order in which they became due. Connections are those of a
simulated network, which `create_connection` and `create_server` use in place of sockets.
"""

import asyncio
import selectors
import socket
from collections.abc import Callable
from typing import Any, Protocol, cast

TURN_SECONDS = 1e-6  # that a turn of the loop takes


class Connections(Protocol):
    """The network, as far as the loop knows it."""

    async def connect(self, new_protocol: Callable[[], Any], host: str, port: int) -> tuple[Any, Any]: ...
    def listen(self, new_protocol: Callable[[], Any], host: str, port: int) -> Any: ...


class Stuck(AssertionError):
    """Nothing can ever happen again."""


class _JumpingSelector(selectors.SelectSelector):
    """A selector that waits by moving the time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.steps = 0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise Stuck("no timer is set and no callback is due")
        self.now += max(timeout, TURN_SECONDS)
        self.steps += 1
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Set `network` before the first connection. `steps` counts the turns of the loop."""

    def __init__(self) -> None:
        self._jumps = _JumpingSelector()
        self.network: Connections | None = None
        super().__init__(self._jumps)

    def time(self) -> float:
        return self._jumps.now

    @property
    def steps(self) -> int:
        return self._jumps.steps

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        assert self.network is not None
        return await self.network.connect(protocol_factory, host, port)

    async def create_server(self, protocol_factory: Any, *_: Any, sock: Any = None, **__: Any) -> Any:
        assert self.network is not None
        return self.network.listen(protocol_factory, *sock.getsockname())


class Listener:
    """What a server takes for a socket that listens."""

    def __init__(self, host: str, port: int) -> None:
        self._address = host, port

    def getsockname(self) -> tuple[str, int]:
        return self._address


def listener(host: str, port: int) -> socket.socket:
    return cast(socket.socket, Listener(host, port))
