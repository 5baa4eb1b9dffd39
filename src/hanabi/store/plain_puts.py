"""The put of a message that needs no second look, where it was compiled.

`MessageStore.put` is what it must agree with: see `PlainPuts` in `_speedups`, which does all of that or nothing.
"""

import os
from typing import Protocol

from hanabi.store.indexer import Dispatched
from hanabi.store.message_store import MessageStore


class PlainPut(Protocol):
    """Stores the message whose body is the rest of *frame*: log offset, queue offset and size; None: nothing was done,
    and the message is for `MessageStore.put`."""

    def __call__(
        self,
        topic: str,
        queue_id: int,
        frame: bytes,
        body_at: int,
        properties: bytes,
        born_timestamp_ms: int,
        born_host: bytes,
        store_host: bytes,
        flag: int,
        sys_flag: int,
        reconsume_times: int,
        /,
    ) -> tuple[int, int, int] | None: ...


def plain_puts(store: MessageStore) -> PlainPut | None:
    """Puts into *store*, if they were compiled."""
    if os.environ.get("HANABI_PURE_PYTHON"):
        return None
    try:
        from hanabi.store._speedups import PlainPuts
    except ImportError:
        return None
    put: PlainPut = PlainPuts(store, Dispatched).put
    return put
