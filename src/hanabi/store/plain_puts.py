"""The puts of messages that need no second look: compiled where that was done, else `run_of_puts`.

`MessageStore.put` is what both must agree with: they do all of that or nothing. The compiled ones can only be used by
compiled functions: the broker's express lane.
"""

import os

from hanabi.store.indexer import Dispatched
from hanabi.store.message_store import MessageStore


def plain_puts(store: MessageStore) -> object | None:
    """Puts into *store*, if they were compiled: a `PlainPuts` of `_speedups`."""
    if os.environ.get("HANABI_PURE_PYTHON"):
        return None
    try:
        from hanabi.store._speedups import PlainPuts
    except ImportError:
        return None
    puts: object = PlainPuts(store, Dispatched)
    return puts
