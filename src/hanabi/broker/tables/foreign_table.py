"""Small table that this broker shares with Apache's: kept for a Java broker on the same store, and for slaves.

config/messageRequestMode.json     which groups get their messages by POP
config/timermetrics                timed messages that wait, by topic
"""

import asyncio
from pathlib import Path
from typing import Generic, TypeVar

from hanabi.broker.tables.pretty_json import pretty
from hanabi.durable_table import DurableTable
from hanabi.wire.body import Body
from hanabi.wire.fastjson import decode_file

B = TypeVar("B", bound=Body)


class ForeignTable(Generic[B]):
    """The table and its file."""

    def __init__(self, path: Path, empty: B) -> None:
        kind = type(empty)
        self._file: DurableTable[B] = DurableTable(path, encode=pretty, decode=lambda raw: decode_file(raw, kind))
        self.table = self._file.load() or empty

    async def adopt(self, table: B) -> None:
        """Replace the table, in memory and in the file: a change, or a slave's copy of its master's."""
        if table != self.table:
            self.table = table
            await asyncio.to_thread(self._file.save, table)
