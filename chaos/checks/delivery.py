"""Everything acknowledged is delivered, whole; and nothing that was not sent, was refused or was rolled back."""

from chaos.checks.ledger import Ledger
from chaos.history import Delivered
from chaos.traffic import Kind, is_committed


def missing(ledger: Ledger) -> list[str]:
    """Acknowledged messages that no listener took."""
    found: list[str] = []
    for label in sorted(ledger.missing()):
        ack = ledger.acknowledged[label]
        place = f"{ack.broker} queue {ack.queue_id} offset {ack.offset}"
        tries = len(ledger.delivered.get(label, ()))
        found.append(
            f"{label} was acknowledged ({ack.status}, {place}, at {ack.at:.3f}) and is missing; tries: {tries}"
        )
    return found


def unsent(ledger: Ledger) -> list[str]:
    """Delivered, but nobody sent it, or its send was refused for certain every time."""
    found = [f"{label} was delivered and never sent" for label in ledger.delivered if label not in ledger.attempted]
    for label in filter(ledger.was_refused, ledger.delivered):
        error = ledger.failed[label][-1].error
        found.append(f"{label} was delivered, and its sender was told that it is not stored: {error}")
    return sorted(found)


def damaged(ledger: Ledger) -> list[str]:
    return [
        f"{each.consumer} got a body that nobody sent:"
        f" {each.topic} {each.broker} queue {each.queue_id} offset {each.offset}"
        for each in ledger.damaged
    ]


def rolled_back(ledger: Ledger) -> list[str]:
    """Delivered, though its transaction was rolled back."""
    return sorted(
        f"{label} was rolled back and delivered"
        for label in ledger.delivered
        if label.kind is Kind.TRANSACTION and not is_committed(label.number)
    )


def delivered_again(ledger: Ledger) -> int:
    """Deliveries of one place in a queue after the first: at least once allows them, and they are counted."""
    places: set[tuple[str, str, int, int]] = set()
    again = 0
    for each in ledger.deliveries():
        again += each.place in places
        places.add(each.place)
    return again


def stored_again(ledger: Ledger) -> int:
    """Return messages that lie at more than one place of their topic: an answer was lost and the send was tried
    again."""
    return sum(
        len({each.place for each in several if _is_first_hand(each)}) > 1 for several in ledger.delivered.values()
    )


def _is_first_hand(delivery: Delivered) -> bool:
    """From the topic itself, not from the topic of retries, where a second place is what was asked for."""
    return not delivery.topic.startswith("%RETRY%")
