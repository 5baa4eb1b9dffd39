"""Stores that tests open. Many are abandoned on purpose, as a killed broker leaves its store; all are closed here."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from hanabi.errors import MQError
from hanabi.store.message_store import MessageStore

_OPEN: Final[list[MessageStore]] = []


def opened(store: MessageStore) -> MessageStore:
    """Return *store*, which is closed at the end of the test if the test has not closed it."""
    _OPEN.append(store)
    return store


@contextmanager
def closing_stores() -> Iterator[None]:
    """Close at the end what was opened in between. A store that a test has broken may fail, but lets its files go."""
    before = len(_OPEN)
    yield
    while len(_OPEN) > before:
        with suppress(MQError, OSError):
            _OPEN.pop().close()
