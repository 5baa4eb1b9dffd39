"""A client of the gRPC API as the broker's handlers see it: in the place of a remoting connection."""

from collections.abc import Callable, Mapping
from typing import NoReturn

from hanabi.errors import ConnectionLostError
from hanabi.wire.command import Command
from hanabi.wire.header import Header


class Peer:
    """The origin of requests. It takes no requests of its own: see `calls/support/sessions.py` for those that do."""

    def __init__(
        self,
        peer: str,
        is_stalled: Callable[[], bool],
        *,
        cut: Callable[[], None] | None = None,
        hold: Callable[[float], None] | None = None,
    ) -> None:
        """*cut* ends its connection; *hold* reads no further request of the client for so many seconds."""
        self.peer = peer
        self._is_stalled, self._cut, self._hold = is_stalled, cut, hold
        self.certificate_names: tuple[str, ...] = ()  # of the client's certificate, if TLS has verified one
        self.closed = False

    @property
    def is_stalled(self) -> bool:
        """True while the client leaves replies unread."""
        return self._is_stalled()

    def hold(self, seconds: float) -> None:
        """Begin no further request of the client for so long."""
        if self._hold is not None:
            self._hold(seconds)

    @property
    def unsent_bytes(self) -> int:
        """The bytes that wait for the client to read."""
        return 0

    def send_oneway(
        self,
        code: int,
        header: Header | Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        at_once: bool = False,
    ) -> None:
        """Send the client a request without an answer."""
        self._cannot(code)

    async def request(
        self,
        code: int,
        header: Header | Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout: float,  # noqa: ASYNC109 - as a remoting connection has it
    ) -> Command:
        """Ask the client."""
        self._cannot(code)

    def close(self, reason: str) -> None:
        """End the client's membership."""
        self.closed = True

    def drop(self) -> None:
        """Cut the client's connection off, and serve none of its calls any more."""
        self.closed = True
        if self._cut is not None:
            self._cut()

    def _cannot(self, code: int) -> NoReturn:
        raise ConnectionLostError(f"{self.peer}: this client has no stream for request {code}")
