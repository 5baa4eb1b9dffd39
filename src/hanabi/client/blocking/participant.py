"""Base of all blocking classes: the wrapped asyncio object, and `with`.

Contains no logic: `lifetime` passes calls to the loop, and the asyncio class does the work.
"""

from types import TracebackType
from typing import Generic, Self, TypeVar

from hanabi.client.blocking.lifetime import Lifetime
from hanabi.client.config import ClientConfig
from hanabi.client.participant import Participant

A = TypeVar("A", bound=Participant)


class BlockingParticipant(Generic[A]):
    """Blocking wrapper of *aio*."""

    def __init__(self, aio: A) -> None:
        self._aio = aio
        self._life = Lifetime(aio.what)

    @property
    def group(self) -> str:
        return self._aio.group

    @property
    def config(self) -> ClientConfig:
        return self._aio.config

    @property
    def client_id(self) -> str:
        """Return the id by which brokers know this client."""
        return self._aio.client_id

    def start(self) -> None:
        self._life.start(self._aio.start, self._aio.shutdown)

    def shutdown(self, timeout: float | None = None) -> None:
        self._life.shutdown(lambda: self._aio.shutdown(timeout))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shutdown()
