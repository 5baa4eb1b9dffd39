"""What is known of each message of a history: sent how, acknowledged or not, delivered where. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from chaos.history import Acknowledged, AnyEvent, Attempted, Damaged, Delivered, Failed, Position, Returned
from chaos.traffic import Kind, Label, is_committed


class Ledger:
    """The events of a history, sorted by what they are. `take` may be called while the history still grows."""

    def __init__(self, events: Iterable[AnyEvent] = ()) -> None:
        self.attempted: dict[Label, float] = {}  # when the first try of it began
        self.tries: Counter[Label] = Counter()
        self.acknowledged: dict[Label, Acknowledged] = {}
        self.failed: dict[Label, list[Failed]] = defaultdict(list)
        self.delivered: dict[Label, list[Delivered]] = defaultdict(list)
        self.accepted: set[Label] = set()
        self.damaged: list[Damaged] = []
        self.returned: list[Returned] = []
        self.positions: list[Position] = []
        self.take(events)

    def take(self, events: Iterable[AnyEvent]) -> None:
        for event in events:
            match event:
                case Attempted():
                    self.attempted.setdefault(event.label, event.at)
                    self.tries[event.label] += 1
                case Acknowledged():
                    self.acknowledged.setdefault(event.label, event)
                case Failed():
                    self.failed[event.label].append(event)
                case Delivered():
                    self.delivered[event.label].append(event)
                    if event.accepted:
                        self.accepted.add(event.label)
                case Damaged():
                    self.damaged.append(event)
                case Returned():
                    self.returned.append(event)
                case Position():
                    self.positions.append(event)

    def owed(self) -> set[Label]:
        """What consumers must have got in the end: acknowledged, and not rolled back."""
        return {
            label for label in self.acknowledged if label.kind is not Kind.TRANSACTION or is_committed(label.number)
        }

    def was_refused(self, label: Label) -> bool:
        """Return whether it is certain that no broker stored it: every try ended with that. The last one of a
        producer that was killed has no end."""
        failures = self.failed.get(label, ())
        return (
            label not in self.acknowledged
            and 0 < self.tries[label] == len(failures)
            and not any(each.maybe_stored for each in failures)
        )

    def missing(self) -> set[Label]:
        return self.owed() - self.accepted

    def deliveries(self) -> list[Delivered]:
        """Return all of them, in the order of time."""
        return sorted((each for several in self.delivered.values() for each in several), key=lambda each: each.at)
