"""Stamps: the row id that the sink writes into every message, so that a reader can detect repeats.

    SPARK_ROW = query / batch / partition / content     a digest of the row; a second identical row gets -2
    SPARK_ROW = query / batch / key=rowKey              if the row has a rowKey

The content is used, not the row number: after a shuffle a retried task gets its rows in a different order.
"""

from hashlib import sha256
from typing import Any, Final

import msgspec

ROW_ID_PROPERTY: Final = "SPARK_ROW"
_DIGEST_BYTES: Final = 12
_encode: Final = msgspec.msgpack.Encoder().encode


class RowIds:
    """Stamps of one task. Remembers the digests of its rows to number identical rows."""

    def __init__(self, batch: str, partition: int) -> None:
        """Create the stamps of one task. *batch* identifies the query and its batch."""
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
