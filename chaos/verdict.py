"""Judges a history: every check, with what it found. Pure; who gathers the history and who prints this is elsewhere."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from chaos.checks import delays, delivery, offsets, order
from chaos.checks.ledger import Ledger
from chaos.traffic import Kind

MUST_HOLD: Final = {
    "missing": "acknowledged and missing",
    "unsent": "delivered, but never sent or refused for certain",
    "damaged": "delivered with another body",
    "rolled back": "rolled back and delivered",
    "reordered": "ordered queues: delivered out of order",
    "stored out of order": "ordered queues: stored out of order",
    "backwards": "offsets that went backwards",
    "early": "delayed messages that came early",
    "complaints": "servers: tracebacks and the like in their logs",
    "troubles": "processes that ended by themselves, or would not end",
}


class TrafficFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What one kind of traffic came to."""

    attempted: int
    acknowledged: int
    refused: int  # certainly not stored
    unknown: int  # no answer, or the sender was killed
    delivered: int  # messages, each once
    deliveries: int
    statuses: dict[str, int]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """`violations` has a key for each thing that must hold, and sentences where it does not."""

    violations: dict[str, list[str]]
    traffic: dict[str, TrafficFigures]
    delivered_again: int
    stored_again: int
    overlaps: int
    late_s: dict[str, float]

    @property
    def holds(self) -> bool:
        return not any(self.violations.values())


def judge(
    ledger: Ledger,
    *,
    kinds: Sequence[Kind],
    kills: Mapping[str, Sequence[float]],
    clock_wrong: Mapping[str, Sequence[tuple[float, float]]],
    complaints: Sequence[str] = (),
    troubles: Sequence[str] = (),
) -> Verdict:
    """*kills* are moments, *clock_wrong* intervals, by broker."""
    violations = {
        "missing": delivery.missing(ledger),
        "unsent": delivery.unsent(ledger),
        "damaged": delivery.damaged(ledger),
        "rolled back": delivery.rolled_back(ledger),
        "reordered": order.reordered(ledger),
        "stored out of order": order.stored_out_of_order(ledger),
        "backwards": offsets.backwards(ledger, kills),
        "early": delays.early(ledger, clock_wrong),
        "complaints": list(complaints),
        "troubles": list(troubles),
    }
    return Verdict(
        violations=violations,
        traffic={str(kind): _figures(ledger, kind) for kind in kinds},
        delivered_again=delivery.delivered_again(ledger),
        stored_again=delivery.stored_again(ledger),
        overlaps=order.overlaps(ledger),
        late_s=_percentiles(delays.lateness(ledger)),
    )


def _figures(ledger: Ledger, kind: Kind) -> TrafficFigures:
    attempted = [label for label in ledger.attempted if label.kind is kind]
    acknowledged = [ack for label, ack in ledger.acknowledged.items() if label.kind is kind]
    unanswered = [label for label in attempted if label not in ledger.acknowledged]
    refused = sum(map(ledger.was_refused, unanswered))
    deliveries = [several for label, several in ledger.delivered.items() if label.kind is kind]
    return TrafficFigures(
        attempted=len(attempted),
        acknowledged=len(acknowledged),
        refused=refused,
        unknown=len(unanswered) - refused,
        delivered=len(deliveries),
        deliveries=sum(map(len, deliveries)),
        statuses=dict(Counter(ack.status for ack in acknowledged)),
    )


def _percentiles(ascending: Sequence[float]) -> dict[str, float]:
    if not ascending:
        return {}
    return {f"p{p}": round(ascending[min(len(ascending) - 1, len(ascending) * p // 100)], 3) for p in (50, 99, 100)}
