"""All rules over one snapshot."""

from collections.abc import Callable, Iterator
from typing import Final

from hanabi.admin.answer import Answer
from hanabi.doctor import groups, machines, reach, replication, topics
from hanabi.doctor.findings import Finding, Severity
from hanabi.doctor.snapshot import Snapshot

RULES: Final[tuple[Callable[[Snapshot], Iterator[Finding]], ...]] = (
    reach.name_servers_that_are_away,
    reach.name_servers_that_miss_a_broker,
    reach.name_servers_that_miss_topics,
    reach.name_servers_that_contradict_each_other,
    reach.brokers_of_one_name,
    reach.brokers_that_died,
    reach.no_brokers_at_all,
    reach.brokers_that_cannot_be_reached,
    reach.brokers_that_say_this_machine,
    reach.brokers_that_are_another,
    reach.brokers_without_a_master,
    machines.disks_that_are_full,
    machines.clocks_that_are_off,
    machines.work_that_is_behind,
    machines.versions_that_do_not_match,
    machines.versions_with_known_holes,
    replication.slaves_that_do_not_follow,
    replication.slaves_that_fall_behind,
    replication.slaves_that_are_not_registered,
    replication.slaves_of_another_cluster,
    replication.commit_logs_of_different_files,
    replication.sync_masters_without_a_slave,
    replication.sync_masters_that_do_not_wait,
    topics.queues_on_missing_brokers,
    topics.queues_without_readers,
    topics.topics_on_some_brokers,
    topics.tracing_without_a_topic,
    groups.groups_that_subscribe_differently,
    groups.groups_without_members,
    groups.members_without_queues,
    groups.dead_letters_that_pile_up,
)
_ORDER: Final = tuple(Severity)


class Diagnosis(Answer, frozen=True, kw_only=True):
    """Findings, the worst first, and the number of things examined."""

    findings: list[Finding]
    name_servers: int
    brokers: int
    topics: int
    groups: int

    @property
    def healthy(self) -> bool:
        """Return True if there are only notes."""
        return all(finding.severity is Severity.NOTE for finding in self.findings)


def diagnose(seen: Snapshot) -> Diagnosis:
    """Apply all rules to *seen*. Pure."""
    found = [finding for rule in RULES for finding in rule(seen)]
    return Diagnosis(
        findings=sorted(found, key=lambda finding: _ORDER.index(finding.severity)),
        name_servers=len(seen.name_servers),
        brokers=len(seen.brokers),
        topics=len(seen.topics),
        groups=len(seen.groups),
    )
