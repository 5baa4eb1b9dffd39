"""The puts of messages that need no second look, where they were compiled.

`MessageStore.put` is what they must agree with: see `PlainPuts` in `_speedups`, which does all of that or nothing. Only
compiled functions can use it: the broker's express lane.
"""

import os

from hanabi.store.indexer import Dispatched
from hanabi.store.message_store import MessageStore


def plain_puts(store: MessageStore) -> object | None:
    """Puts into *store*, if they were compiled: a `PlainPuts`."""
    if os.environ.get("HANABI_PURE_PYTHON"):
        return None
    try:
        from hanabi.store._speedups import PlainPuts
    except ImportError:
        return None
    puts: object = PlainPuts(store, Dispatched)
    return puts
