"""Routes as bytes, ready to be sent, until something in them changes."""

from collections.abc import Iterable
from enum import IntEnum

BYTES_MAX = 256 * 1024 * 1024  # 10,000 topics on 20 brokers have 40 MB, and twice that if asked for in both forms


class RouteForm(IntEnum):
    """The forms in which clients read routes."""

    DIALECT = 0  # fastjson's, with bare numbers as keys: before 4.9.4
    STANDARD = 1  # JSON
    EXTENDED = 2  # JSON, with what 5.x adds


class EncodedRoutes:
    """One table for each form. Only topics that exist are kept, and only so many bytes.

    When it is full it starts over: what is asked for often is soon back.
    """

    __slots__ = ("_bytes", "_bytes_max", "_tables")

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._tables: tuple[dict[str, tuple[str | None, bytes]], ...] = tuple({} for _ in RouteForm)

    def get(self, topic: str, form: RouteForm, order_conf: str | None) -> bytes | None:
        kept = self._tables[form].get(topic)
        # The order configuration lives elsewhere and changes without our knowing: it is compared, not invalidated.
        return kept[1] if kept is not None and kept[0] == order_conf else None

    def keep(self, topic: str, form: RouteForm, order_conf: str | None, encoded: bytes) -> None:
        kept = self._tables[form]
        self._discard(kept, topic)
        if self._bytes + len(encoded) > self._bytes_max:
            for table in self._tables:
                table.clear()
            self._bytes = 0
        kept[topic] = order_conf, encoded
        self._bytes += len(encoded)

    def forget(self, topics: Iterable[str]) -> None:
        for topic in topics:
            for table in self._tables:
                self._discard(table, topic)

    def _discard(self, kept: dict[str, tuple[str | None, bytes]], topic: str) -> None:
        gone = kept.pop(topic, None)
        if gone is not None:
            self._bytes -= len(gone[1])
