"""Histories made by hand, for the tests of what judges them."""

from chaos.checks.ledger import Ledger
from chaos.history import Acknowledged, AnyEvent, Attempted, Delivered, Failed, Position
from chaos.traffic import Kind, group_of, topic_of


class Story:
    """Says what happened, one line after the other, a second apart unless it says when."""

    def __init__(self) -> None:
        self._events: list[AnyEvent] = []
        self._now = 0.0

    def _at(self, at: float | None) -> float:
        self._now = self._now + 1.0 if at is None else at
        return self._now

    def attempted(self, number: int, kind: Kind = Kind.PLAIN, *, producer: str = "p", at: float | None = None) -> None:
        self._events.append(Attempted(at=self._at(at), kind=kind, producer=producer, number=number))

    def sent(
        self,
        number: int,
        kind: Kind = Kind.PLAIN,
        *,
        producer: str = "p",
        broker: str = "broker-a",
        offset: int = 0,
        at: float | None = None,
    ) -> None:
        """Tried and acknowledged."""
        self.attempted(number, kind, producer=producer, at=at)
        self._events.append(
            Acknowledged(
                at=self._now,
                kind=kind,
                producer=producer,
                number=number,
                broker=broker,
                queue_id=0,
                offset=offset,
                status="SEND_OK",
            )
        )

    def failed(self, number: int, kind: Kind = Kind.PLAIN, *, maybe_stored: bool) -> None:
        self.attempted(number, kind)
        self._events.append(
            Failed(at=self._now, kind=kind, producer="p", number=number, maybe_stored=maybe_stored, error="no")
        )

    def delivered(
        self,
        number: int,
        kind: Kind = Kind.PLAIN,
        *,
        producer: str = "p",
        consumer: str = "c",
        topic: str | None = None,
        broker: str = "broker-a",
        queue_id: int = 0,
        offset: int = 0,
        accepted: bool = True,
        at: float | None = None,
    ) -> None:
        self._events.append(
            Delivered(
                at=self._at(at),
                kind=kind,
                producer=producer,
                number=number,
                consumer=consumer,
                topic=topic or topic_of(kind),
                broker=broker,
                queue_id=queue_id,
                offset=offset,
                accepted=accepted,
            )
        )

    def position(
        self,
        committed: int | None,
        *,
        first: int = 0,
        last: int = 1_000,
        broker: str = "broker-a",
        at: float | None = None,
        took: float = 0.1,
    ) -> None:
        moment = self._at(at)
        self._events.append(
            Position(
                at=moment,
                asked=moment - took,
                group=group_of(Kind.PLAIN),
                topic=topic_of(Kind.PLAIN),
                broker=broker,
                queue_id=0,
                first=first,
                last=last,
                committed=committed,
            )
        )

    def event(self, event: AnyEvent) -> None:
        self._events.append(event)

    @property
    def ledger(self) -> Ledger:
        return Ledger(self._events)
