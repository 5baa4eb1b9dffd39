"""The put of a message that needs no second look, where it was compiled.

`MessageStore.put` is what it must agree with: see `PlainPuts` in `_speedups`, which does all of that or nothing.
"""

import os
from typing import Protocol

from hanabi.store.indexer import Dispatched
from hanabi.store.message_store import MessageStore


class PlainPut(Protocol):
    """Stores messages of one queue, each (body at, body bytes, flag, properties) with its body in *frame*: the first
    one's queue offset, how many bytes they are, the log offset of each. None: nothing was done, and they are for
    `MessageStore`."""

    def __call__(
        self,
        topic: str,
        queue_id: int,
        frame: bytes,
        messages: list[tuple[int, int, int, bytes]],
        born_timestamp_ms: int,
        born_host: bytes,
        store_host: bytes,
        sys_flag: int,
        reconsume_times: int,
        /,
    ) -> tuple[int, int, list[int]] | None: ...


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
