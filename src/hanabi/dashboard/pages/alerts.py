"""Alerts: those that last, those that ended, and the rules."""

from starlette.responses import Response

from hanabi.dashboard.alerts.rules import PROMETHEUS, Limits, Rule
from hanabi.dashboard.web.routing import PageRoute
from hanabi.dashboard.web.visit import Visit


async def alerts(visit: Visit) -> Response:
    """Show alerts."""
    watch = visit.parts.watch
    return visit.page("alerts.html", watch=watch, rules=rules_of(watch.config.limits))


def rules_of(limits: Limits) -> list[tuple[str, float | None, str, str]]:
    """Return the rules: name, limit, unit and the name of Prometheus' rule. Pure."""
    values: dict[Rule, tuple[float | None, str]] = {
        Rule.LAG: (limits.lag_seconds, "seconds"),
        Rule.SILENT: (limits.silent_seconds, "seconds"),
        Rule.DISK: (limits.disk_used, "ratio"),
        Rule.DEAD_LETTERS: (limits.dead_letters, "count"),
        Rule.REPLICATION: (limits.replication_seconds, "seconds"),
    }
    return [(str(rule), limit, unit, PROMETHEUS[rule]) for rule, (limit, unit) in values.items()]


PAGES = [PageRoute("/alerts", alerts, local=True)]
