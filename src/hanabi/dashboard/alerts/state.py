"""Alerts over time: one begins with a finding, and ends when its rule was judged again without it. Pure."""

from collections import deque
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from hanabi.dashboard.alerts.rules import Finding, Rule

ENDED_MAX: Final = 200
ACTIVE_MAX: Final = 1_000


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """An alert; `ended_ms` is None while it lasts."""

    finding: Finding
    since_ms: int
    ended_ms: int | None = None

    @property
    def state(self) -> str:
        return "firing" if self.ended_ms is None else "resolved"


class AlertBook:
    """Alerts that last, and the last ones that ended."""

    def __init__(self) -> None:
        self._active: dict[tuple[Rule, str], Alert] = {}
        self._ended: deque[Alert] = deque(maxlen=ENDED_MAX)
        self.left_out = 0  # findings over the limit of alerts

    @property
    def active(self) -> list[Alert]:
        """Return the alerts that last, critical ones first, then the oldest."""
        return sorted(
            self._active.values(),
            key=lambda each: (each.finding.severity != "critical", each.since_ms, each.finding.subject),
        )

    @property
    def ended(self) -> list[Alert]:
        """Return alerts that ended, the newest first."""
        return list(reversed(self._ended))

    def note(self, found: Iterable[Finding], judged: Collection[Rule], now_ms: int) -> list[Alert]:
        """Take the findings of a round; return the alerts that began or ended."""
        current = {(finding.rule, finding.subject): finding for finding in found}
        changed: list[Alert] = []
        self.left_out = 0
        for key, finding in current.items():
            before = self._active.get(key)
            if before is None and len(self._active) >= ACTIVE_MAX:
                self.left_out += 1
                continue
            alert = Alert(finding=finding, since_ms=before.since_ms if before else now_ms)
            self._active[key] = alert
            if before is None:
                changed.append(alert)
        for key, alert in list(self._active.items()):
            if key not in current and alert.finding.rule in judged:
                del self._active[key]
                ended = msgspec.structs.replace(alert, ended_ms=now_ms)
                self._ended.append(ended)
                changed.append(ended)
        return changed
