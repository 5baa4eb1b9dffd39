"""Routes as bytes, ready to be sent, until something in them changes."""

from collections.abc import Iterable


class EncodedRoutes:
    """One table for fastjson's dialect, one for standard JSON. Only topics that exist are kept, so they are bounded."""

    __slots__ = ("_dialect", "_standard")

    def __init__(self) -> None:
        self._dialect: dict[str, tuple[str | None, bytes]] = {}
        self._standard: dict[str, tuple[str | None, bytes]] = {}

    def get(self, topic: str, standard: bool, order_conf: str | None) -> bytes | None:
        kept = (self._standard if standard else self._dialect).get(topic)
        # The order configuration lives elsewhere and changes without our knowing: it is compared, not invalidated.
        return kept[1] if kept is not None and kept[0] == order_conf else None

    def keep(self, topic: str, standard: bool, order_conf: str | None, encoded: bytes) -> None:
        (self._standard if standard else self._dialect)[topic] = (order_conf, encoded)

    def forget(self, topics: Iterable[str]) -> None:
        for topic in topics:
            self._dialect.pop(topic, None)
            self._standard.pop(topic, None)
