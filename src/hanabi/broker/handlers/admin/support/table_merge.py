"""Merging of handler tables."""

from collections.abc import Mapping

from hanabi.remoting.connection.dispatch import Handler
from hanabi.wire.codes import request_name


def join_handlers(*tables: Mapping[int, Handler]) -> dict[int, Handler]:
    """Return *tables* merged into one; raise ValueError for a code that occurs twice, a mistake of ours found at the
    start."""
    joined: dict[int, Handler] = {}
    for table in tables:
        if twice := joined.keys() & table.keys():
            raise ValueError(f"two handlers for {', '.join(request_name(code) for code in sorted(twice))}")
        joined.update(table)
    return joined
