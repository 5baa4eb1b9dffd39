"""Rules of alerts: what one round of the sampler says about lag, brokers, disks, dead letters and replication. Pure.

`deploy/prometheus/alerts.yml` has the same rules for Prometheus; a test compares the limits.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from hanabi.admin.groups import kind_of
from hanabi.admin.replication_report import SlaveState
from hanabi.dashboard.history.sampler import Round

DEAD_LETTERS_WINDOW_MS: Final = 10 * 60 * 1000


class Rule(StrEnum):
    """The rules, by the names that pages, the webhook and the file of limits use."""

    LAG = "lag"
    SILENT = "silent"
    DISK = "disk"
    DEAD_LETTERS = "dead_letters"
    REPLICATION = "replication"


PROMETHEUS: Final = {
    Rule.LAG: "HanabiLagTime",
    Rule.SILENT: "HanabiDown",
    Rule.DISK: "HanabiDiskFills",
    Rule.DEAD_LETTERS: "HanabiDeadLetters",
    Rule.REPLICATION: "HanabiSlaveBehind",
}


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of the rules; null turns a rule off."""

    lag_seconds: float | None = 600.0  # age of the oldest message that a group has not consumed
    silent_seconds: float | None = 60.0
    disk_used: float | None = 0.8  # part of the disk
    dead_letters: int | None = 1  # new ones in ten minutes
    replication_seconds: float | None = 60.0
    groups: dict[str, float | None] = {}  # lag_seconds of single groups


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong now."""

    rule: Rule
    subject: str  # a group or a broker
    severity: str
    sentence: str
    value: float
    limit: float


class LetterCounts:
    """Numbers of dead letters of the last ten minutes, by group, so that new ones are seen."""

    def __init__(self) -> None:
        self._seen: list[tuple[int, Mapping[str, int]]] = []

    def new(self, counts: Mapping[str, int], now_ms: int) -> dict[str, int]:
        """Take the counts of a round; return how many letters each group got within the window."""
        self._seen = [(at, each) for at, each in self._seen if now_ms - at <= DEAD_LETTERS_WINDOW_MS]
        self._seen.append((now_ms, dict(counts)))
        first = self._seen[0][1]
        known_before = len(self._seen) > 1
        return {
            group: count - first.get(group, 0 if known_before else count)
            for group, count in counts.items()
            if count > first.get(group, 0 if known_before else count)
        }


def findings(round_: Round, limits: Limits, letters: LetterCounts) -> tuple[list[Finding], frozenset[Rule]]:
    """Return what is wrong, and which rules this round could judge; what the others said before still holds."""
    found = [*_silent(round_, limits), *_disks(round_, limits)]
    judged = {Rule.SILENT, Rule.DISK}
    if round_.lags is not None:
        found += _lags(round_, limits)
        judged.add(Rule.LAG)
    if round_.dead_letters is not None:
        found += _letters(letters.new(round_.dead_letters, round_.at_ms), limits)
        judged.add(Rule.DEAD_LETTERS)
    if round_.replication is not None:
        found += _replication(round_, limits)
        judged.add(Rule.REPLICATION)
    return found, frozenset(judged)


def _silent(round_: Round, limits: Limits) -> Iterator[Finding]:
    for row in round_.brokers:
        if row.silent_since_ms is None or limits.silent_seconds is None:
            continue
        seconds = (round_.at_ms - row.silent_since_ms) / 1000
        if seconds >= limits.silent_seconds:
            subject = f"{row.summary.broker} at {row.summary.address}"
            yield Finding(
                rule=Rule.SILENT,
                subject=subject,
                severity="critical",
                sentence=f"Broker {subject} does not answer: {row.problem}",
                value=seconds,
                limit=limits.silent_seconds,
            )


def _disks(round_: Round, limits: Limits) -> Iterator[Finding]:
    for row in round_.brokers:
        used = row.summary.disk_used
        if (
            row.silent_since_ms is None
            and used is not None
            and limits.disk_used is not None
            and used > limits.disk_used
        ):
            subject = f"{row.summary.broker} at {row.summary.address}"
            yield Finding(
                rule=Rule.DISK,
                subject=subject,
                severity="warning",
                sentence=f"The disk of broker {subject} is {used:.0%} full",
                value=used,
                limit=limits.disk_used,
            )


def _lags(round_: Round, limits: Limits) -> Iterator[Finding]:
    for group, lag in (round_.lags or {}).items():
        limit, behind = limits.groups.get(group, limits.lag_seconds), lag.behind_s(round_.at_ms)
        if limit is None or behind is None or behind <= limit or kind_of(group) != "normal":
            continue
        yield Finding(
            rule=Rule.LAG,
            subject=group,
            severity="warning",
            sentence=f"Group {group} is {behind:.0f} s behind, with {lag.messages} messages to consume",
            value=behind,
            limit=limit,
        )


def _letters(new: Mapping[str, int], limits: Limits) -> Iterator[Finding]:
    for group, count in new.items():
        if limits.dead_letters is not None and count >= limits.dead_letters:
            yield Finding(
                rule=Rule.DEAD_LETTERS,
                subject=group,
                severity="warning",
                sentence=f"Group {group} got {count} new dead letters within ten minutes",
                value=count,
                limit=limits.dead_letters,
            )


def _replication(round_: Round, limits: Limits) -> Iterator[Finding]:
    for broker in round_.replication or ():
        for slave in broker.slaves:
            limit, lag = limits.replication_seconds, slave.lag_seconds
            gone = slave.state is SlaveState.NOT_CONNECTED
            if limit is None or not (gone or (lag is not None and lag > limit)):
                continue
            state = "is not connected to its master" if gone else f"is {lag:.0f} s behind its master"
            yield Finding(
                rule=Rule.REPLICATION,
                subject=f"{broker.broker}, slave {slave.name}",
                severity="warning",
                sentence=f"Slave {slave.name} of {broker.broker} {state}",
                value=lag or 0.0,
                limit=limit,
            )
