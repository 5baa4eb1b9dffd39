"""Brokers that a name server misses, as entries of a key-value list (219). Hanabi's own; Apache's has no such list."""

from collections.abc import Iterable
from typing import Final

import msgspec

from hanabi.wire.bodies.route import KVTable

ABSENT_NAMESPACE: Final = "HANABI_ABSENT_BROKERS"


class AbsentBroker(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that was registered and is missing: "gone" without a word, or "replaced" by another of its name."""

    broker: str
    broker_id: int
    address: str
    why: str
    seen_ms: int


def absent_table(absent: Iterable[AbsentBroker]) -> KVTable:
    return KVTable(table={f"{each.broker}:{each.broker_id}@{each.address}": _text(each) for each in absent})


def absent_brokers(table: KVTable) -> list[AbsentBroker]:
    """Return the entries of a table that `absent_table` made."""
    return [msgspec.json.decode(text, type=AbsentBroker) for _, text in sorted(table.table.items())]


def _text(absent: AbsentBroker) -> str:
    return msgspec.json.encode(absent).decode()
