"""The board of brokers: the newest figures of each, and since when one does not answer."""

from collections.abc import Iterable
from typing import Final

import msgspec

from hanabi.admin.brokers import BrokerSummary

GONE_MS: Final = 24 * 60 * 60 * 1000  # a broker that no name server knows is forgotten after this
ROWS_MAX: Final = 1_000


class BrokerRow(msgspec.Struct, frozen=True, kw_only=True):
    """One broker. `silent_since_ms` is set while it does not answer; the figures are then those of `seen_ms`."""

    summary: BrokerSummary
    seen_ms: int | None
    silent_since_ms: int | None = None
    problem: str | None = None
    listed: bool = True  # by a name server


class Board:
    """Rows of all brokers, also of those that left the name servers' list a short while ago."""

    def __init__(self) -> None:
        self._rows: dict[str, BrokerRow] = {}

    @property
    def rows(self) -> list[BrokerRow]:
        return sorted(
            self._rows.values(), key=lambda row: (row.summary.cluster, row.summary.broker, row.summary.broker_id)
        )

    def note(self, summaries: Iterable[BrokerSummary], now_ms: int) -> None:
        """Take the answers of one round."""
        listed = {summary.address: summary for summary in summaries}
        for address, summary in listed.items():
            self._rows[address] = _row(self._rows.get(address), summary, now_ms)
        for address, row in list(self._rows.items()):
            if address not in listed:
                self._rows[address] = gone = _gone(row, now_ms)
                if now_ms - (gone.silent_since_ms or now_ms) > GONE_MS or len(self._rows) > ROWS_MAX:
                    del self._rows[address]


def _row(before: BrokerRow | None, summary: BrokerSummary, now_ms: int) -> BrokerRow:
    if summary.problem is None:
        return BrokerRow(summary=summary, seen_ms=now_ms)
    since = before.silent_since_ms if before and before.silent_since_ms is not None else now_ms
    kept = before.summary if before is not None else summary
    return BrokerRow(
        summary=kept, seen_ms=before.seen_ms if before else None, silent_since_ms=since, problem=summary.problem
    )


def _gone(row: BrokerRow, now_ms: int) -> BrokerRow:
    since = row.silent_since_ms if row.silent_since_ms is not None else now_ms
    problem = "no name server lists it any more"
    return msgspec.structs.replace(row, silent_since_ms=since, problem=problem, listed=False)
