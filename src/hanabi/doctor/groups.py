"""Rules for groups: differing subscriptions, groups without consumers, dead letters. Pure."""

from collections.abc import Iterator
from typing import Final

from hanabi.doctor.findings import Finding, Severity
from hanabi.doctor.snapshot import GroupSeen, Snapshot, named

MANY_LETTERS: Final = 1_000
BROADCASTING: Final = "BROADCASTING"


def groups_that_subscribe_differently(seen: Snapshot) -> Iterator[Finding]:
    for group in seen.groups:
        if len(group.opinions) > 1:
            said = "; ".join(f"{what} ({named(members, 2)})" for what, members in sorted(group.opinions.items()))
            yield Finding(
                severity=Severity.ERROR,
                rule="subscriptions-differ",
                subject=group.group,
                what=f"members of group {group.group} subscribe differently: {said}",
                why="a broker keeps one subscription of a group, the newest, so messages are skipped silently",
                todo="let all members of a group subscribe to the same topics with the same tags or SQL, or give each"
                " kind of member a group of its own",
            )


def groups_without_members(seen: Snapshot) -> Iterator[Finding]:
    for group in seen.groups:
        if not group.members and group.lag_later > group.lag:
            yield Finding(
                severity=Severity.WARNING,
                rule="group-unattended",
                subject=group.group,
                what=f"group {group.group} has no members, and is {group.lag_later} messages behind: "
                f"{group.lag_later - group.lag} more than {seen.seconds:.0f} s before",
                why="messages are deleted when they are old enough (fileReservedTime), consumed or not",
                todo=f"start its consumers; if it is not needed any more: hanabi group delete {group.group}",
            )


def members_without_queues(seen: Snapshot) -> Iterator[Finding]:
    queues = {topic.topic: sum(each.read_queues for each in topic.queues) for topic in seen.topics}
    for group in seen.groups:
        most = _most_queues(group, queues)
        if most is not None and len(group.members) > most and group.message_model != BROADCASTING:
            yield Finding(
                severity=Severity.NOTE,
                rule="idle-members",
                subject=group.group,
                what=f"group {group.group} has {len(group.members)} members for {most} queues",
                why="a queue has one member at a time, so the remaining members get nothing",
                todo="make more queues (hanabi topic update TOPIC --queues N), or run fewer members",
            )


def _most_queues(group: GroupSeen, queues: dict[str, int]) -> int | None:
    """Return the number of queues of its topics together: with several topics a member may have queues of only one."""
    if not group.topics or any(topic not in queues for topic in group.topics):
        return None
    return sum(queues[topic] for topic in group.topics)


def dead_letters_that_pile_up(seen: Snapshot) -> Iterator[Finding]:
    for letters in seen.dead_letters:
        if not letters.waiting_later:
            continue
        more = letters.waiting_later - letters.waiting
        much = more > 0 or letters.waiting_later >= MANY_LETTERS
        growing = f", {more} more than {seen.seconds:.0f} s before" if more > 0 else ""
        yield Finding(
            severity=Severity.WARNING if much else Severity.NOTE,
            rule="dead-letters",
            subject=letters.group,
            what=f"group {letters.group} has {letters.waiting_later} dead letters that wait{growing}",
            why="no consumer gets them, and they are deleted when they are old enough",
            todo=f"see them with hanabi dlq show {letters.group}; mend the listener, then hanabi dlq resend"
            f" {letters.group}",
        )
