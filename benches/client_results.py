"""Findings of the comparison of clients: the table, the demands and whether they are met, the figures for programs.

Pure: rounds in, text and plain values out.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final

from benches.client_peers import JAVA, OURS
from benches.client_programs import Round
from benches.report import table

Rounds = Sequence[Round]
Results = Mapping[str, Mapping[str, Rounds | str]]  # row, then client: its rounds, or why there are none

HEAD: Final = ("what", "client", "messages/s", "CPU us/message", "ours to this one", "range of that")


def rates(results: Results) -> str:
    """Return the table. Ratios are of rounds beside each other, and then their median and range."""
    rows: list[list[str]] = []
    for what, clients in results.items():
        ours = clients[OURS]
        for name, mine in clients.items():
            if isinstance(mine, str):
                rows.append([what, name, f"failed: {mine}", "", "", ""])
                continue
            pairs = [] if name == OURS else ratios(ours, mine)
            rows.append(
                [
                    what,
                    name,
                    f"{median(each.per_second for each in mine):,.0f}",
                    f"{median(each.cpu_us for each in mine):.1f}",
                    f"{median(pairs):.2f}" if pairs else "",
                    f"{min(pairs):.2f} to {max(pairs):.2f}" if pairs else "",
                ]
            )
    return table(HEAD, rows)


def ratios(ours: Rounds | str, theirs: Rounds | str) -> list[float]:
    """Ours to theirs, pair by pair."""
    if isinstance(ours, str) or isinstance(theirs, str):
        return []
    return [a.per_second / b.per_second for a, b in zip(ours, theirs, strict=True)]


def demands(results: Results, *, blocking: str, asyncio: str, consuming: Sequence[str]) -> str:
    """Return what is demanded of our client (see docs/performance.md), what was measured, and whether that is
    enough."""
    rows: list[list[str]] = []
    java = ratios(results[blocking][OURS], results[blocking].get(JAVA, ""))
    rows.append(_row("blocking sender to one Java thread", 0.6, java, "{:.2f}"))
    rows.append(_row("asyncio sends a second", 12_000, _rates(results[asyncio][OURS]), "{:,.0f}"))
    rows += [_row(f"{row}, a second", 60_000, _rates(results[row][OURS]), "{:,.0f}") for row in consuming]
    for what, clients in results.items():
        others = [name for name in clients if name not in (OURS, JAVA)]
        slowest = {name: median(pairs) for name in others if (pairs := ratios(clients[OURS], clients[name]))}
        if slowest:
            nearest = min(slowest, key=slowest.__getitem__)
            rows.append(_row(f"{what}: to the nearest, {nearest}", 1.0, [slowest[nearest]], "{:.2f}"))
    return table(("demand", "at least", "measured", ""), rows)


def _rates(rounds: Rounds | str) -> list[float]:
    return [] if isinstance(rounds, str) else [each.per_second for each in rounds]


def _row(what: str, least: float, measured: Sequence[float], form: str) -> list[str]:
    if not measured:
        return [what, form.format(least), "not measured", ""]
    found = median(measured)
    return [what, form.format(least), form.format(found), "met" if found >= least else "MISSED"]


def figures(results: Results) -> dict[str, object]:
    """Return the same as plain values."""
    return {
        what: {
            name: {"failed": mine}
            if isinstance(mine, str)
            else {
                "messages_per_second": [round(each.per_second) for each in mine],
                "cpu_us_per_message": [round(each.cpu_us, 2) for each in mine],
                "ours_to_this_one": [round(ratio, 3) for ratio in ratios(clients[OURS], mine)],
            }
            for name, mine in clients.items()
        }
        for what, clients in results.items()
    }
