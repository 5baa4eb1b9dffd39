"""Rules for brokers and name servers as machines: clocks, disks, versions, backlogs. Pure."""

import re
from collections.abc import Iterator
from typing import Final

from hanabi.doctor.findings import Finding, Severity
from hanabi.doctor.snapshot import BrokerSeen, Snapshot, named

CLOCK_MS: Final = 3_000
# Apache's and our limits: no messages are accepted, the oldest are deleted regardless of their age
DISK_REFUSES: Final = 0.90
DISK_FORCED: Final = 0.85
DISK_PERCENT_MAX: Final = 75  # diskMaxUsedSpaceRatio, if a broker does not report it
BEHIND_BYTES: Final = 64 << 20

# Any client that reaches the port can run commands there. By MQVersion's ordinals for name servers, which report no
# name.
BROKER_CVE: Final = "CVE-2023-33246"  # before 4.9.6, and 5.0.0 to 5.1.0
NAME_SERVER_CVE: Final = "CVE-2023-37582"  # before 4.9.7, and 5.0.0 to 5.1.1
_V4_9_7, _V5_0_0_SNAPSHOT, _V5_1_2 = 407, 412, 437


def clocks_that_are_off(seen: Snapshot) -> Iterator[Finding]:
    for broker in seen.brokers:
        ahead = broker.clock_ahead_ms
        if ahead is not None and abs(ahead) > CLOCK_MS + broker.clock_unsure_ms:
            yield Finding(
                severity=Severity.WARNING,
                rule="clock-off",
                subject=broker.at.broker,
                what=f"the clock of {broker.at.broker} ({broker.at.address}) is {abs(ahead) / 1000:.0f} s"
                f" {'ahead of' if ahead > 0 else 'behind'} the one here",
                why="delays, timers, retention, resets to a time and times in messages go by brokers' clocks",
                todo="let NTP keep both machines' clocks; if the broker's is right, it is this machine's",
            )


def disks_that_are_full(seen: Snapshot) -> Iterator[Finding]:
    for broker in seen.brokers:
        used = _number(broker.runtime.get("commitLogDiskRatio"))
        if used is None:
            continue
        limit = (_number(broker.settings.get("diskMaxUsedSpaceRatio")) or DISK_PERCENT_MAX) / 100
        name = broker.at.broker
        todo = (
            "give it a larger disk, or keep less: hanabi broker config fileReservedTime=HOURS; see docs/operations.md"
        )
        if used >= DISK_REFUSES:
            yield Finding(
                severity=Severity.ERROR,
                rule="disk-full",
                subject=name,
                what=f"the disk of {name}'s commit log is {used:.0%} full",
                why=f"over {DISK_REFUSES:.0%} a broker takes no messages; over {DISK_FORCED:.0%} it deletes the oldest,"
                " consumed or not",
                todo=todo,
            )
        elif used >= limit or used >= DISK_FORCED:
            deletes = "the oldest messages, consumed or not" if used >= DISK_FORCED else "what is older than it keeps"
            yield Finding(
                severity=Severity.WARNING,
                rule="disk-filling",
                subject=name,
                what=f"the disk of {name}'s commit log is {used:.0%} full, its limit is {min(limit, DISK_FORCED):.0%}",
                why=f"it deletes {deletes} at any time of the day now; over {DISK_REFUSES:.0%} it takes no messages",
                todo=todo,
            )


def work_that_is_behind(seen: Snapshot) -> Iterator[Finding]:
    for broker in seen.brokers:
        behind = _number(broker.runtime.get("dispatchBehindBytes"))
        if behind is not None and behind > BEHIND_BYTES:
            yield Finding(
                severity=Severity.WARNING,
                rule="dispatch-behind",
                subject=broker.at.broker,
                what=f"{broker.at.broker} has stored {behind / 2**20:.0f} MiB that consumers cannot see yet",
                why="messages are delivered late, by as long as that takes",
                todo="its disk or its processors are too slow for what is sent: see hanabi broker status",
            )


def versions_that_do_not_match(seen: Snapshot) -> Iterator[Finding]:
    versions: dict[str, list[str]] = {}
    for broker in seen.brokers:
        if broker.version is not None:
            versions.setdefault(broker.version, []).append(broker.at.broker)
    if len(versions) > 1:
        lines = {version.split("_")[0] for version in versions}
        said = "; ".join(f"{version}: {named(names)}" for version, names in sorted(versions.items()))
        yield Finding(
            severity=Severity.WARNING if len(lines) > 1 else Severity.NOTE,
            rule="versions-mixed",
            subject=named(versions),
            what=f"brokers are of different versions ({said})",
            why="features of only the newer ones (timers, other compressions, POP) work for some messages only",
            todo="bring them to one version, one broker after the other",
        )


def versions_with_known_holes(seen: Snapshot) -> Iterator[Finding]:
    for broker in seen.brokers:
        if not broker.is_ours and broker.version is not None and _broker_has_hole(broker):
            yield _hole(broker.at.broker, f"{broker.at.broker} is of version {broker.version}", BROKER_CVE, "4.9.6")
    for server in seen.answering:
        if 0 < server.version < _V4_9_7 or _V5_0_0_SNAPSHOT <= server.version < _V5_1_2:
            what = f"the name server {server.address} is older than 4.9.7, or of 5.x older than 5.1.2"
            yield _hole(server.address, what, NAME_SERVER_CVE, "4.9.7")


def _broker_has_hole(broker: BrokerSeen) -> bool:
    numbers = tuple(int(number) for number in re.findall(r"\d+", broker.version or "")[:3])
    if len(numbers) < 3:
        return False
    return numbers < (4, 9, 6) or (5, 0, 0) <= numbers < (5, 1, 1)


def _hole(subject: str, what: str, cve: str, since_4: str) -> Finding:
    since_5 = "5.1.1" if cve == BROKER_CVE else "5.1.2"
    return Finding(
        severity=Severity.WARNING,
        rule="known-vulnerability",
        subject=subject,
        what=f"{what}, which has {cve}",
        why="any client that reaches its port can run commands on its machine",
        todo=f"let only its clients reach it, and bring it to {since_4}, {since_5} or newer",
    )


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None
