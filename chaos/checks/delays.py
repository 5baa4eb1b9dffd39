"""What was delayed does not come early. How late it comes is counted, not judged: faults delay everything."""

from collections.abc import Mapping, Sequence

from chaos.checks.ledger import Ledger
from chaos.traffic import Kind, delay_s_of

Interval = tuple[float, float]
EARLY_S = 0.15  # stored and delivered are milliseconds, the sender's clock and the broker's are one


def early(ledger: Ledger, clock_wrong: Mapping[str, Sequence[Interval]]) -> list[str]:
    """Delivered before its time. A broker whose clock was wrong at some time while it had the message is not blamed."""
    found: list[str] = []
    for label, deliveries in ledger.delivered.items():
        if label.kind is not Kind.DELAYED:
            continue
        sent, wait = ledger.attempted.get(label), delay_s_of(label.number)
        for each in deliveries:
            if sent is None or each.at - sent >= wait - EARLY_S:
                continue
            if not any(start <= each.at and sent <= end for start, end in clock_wrong.get(each.broker, ())):
                found.append(f"{label} was to wait {wait} s and came after {each.at - sent:.3f} s")
    return sorted(found)


def lateness(ledger: Ledger) -> list[float]:
    """Return how many seconds after its time each message came first, in ascending order."""
    return sorted(
        min(each.at for each in deliveries) - ledger.attempted[label] - delay_s_of(label.number)
        for label, deliveries in ledger.delivered.items()
        if label.kind is Kind.DELAYED and label in ledger.attempted
    )
