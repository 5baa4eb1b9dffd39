"""Stamps: what the sink writes on every message, so that a reader can tell a repeat from a new message.

    SPARK_ROW = query / batch / partition / content     a digest of the row; the second row that is the same has -2
    SPARK_ROW = query / batch / key=rowKey              where the row names itself

The content, and not the number of the row: behind a shuffle a task that is tried again gets its rows in another order.
"""

from hashlib import sha256
from typing import Any, Final

import msgspec

ROW_ID_PROPERTY: Final = "SPARK_ROW"
_DIGEST_BYTES: Final = 12
_encode: Final = msgspec.msgpack.Encoder().encode


class RowIds:
    """The stamps of one task. Remembers the digests of its rows, of which some may be the same."""

    def __init__(self, batch: str, partition: int) -> None:
        """*batch* is the query and its batch."""
        self._batch, self._partition = batch, partition
        self._seen: dict[bytes, int] = {}

    def of(self, content: tuple[Any, ...], row_key: str | int | None) -> str:
        """Return the stamp of the next row."""
        if row_key is not None:
            return f"{self._batch}/key={row_key}"
        digest = sha256(_encode(content)).digest()[:_DIGEST_BYTES]
        self._seen[digest] = count = self._seen.get(digest, 0) + 1
        stamp = f"{self._batch}/{self._partition}/{digest.hex()}"
        return stamp if count == 1 else f"{stamp}-{count}"
