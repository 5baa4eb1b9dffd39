"""Replicas in sync: who joins, who leaves, and what is acknowledged."""

from hanabi.replication.rules.role_news import Change, RoleNews, change_for
from hanabi.replication.rules.sync_set import Replica, SyncSet, acknowledged_by, acknowledged_by_all, wanted_members


def wanted(current: set[int], *replicas: Replica, confirmed: int = 100, epoch_start: int = 0) -> set[int]:
    return set(
        wanted_members(
            current,
            replicas,
            master_id=1,
            confirmed=confirmed,
            epoch_start=epoch_start,
            now=50.0,
            silence_seconds=15.0,
        )
    )


def test_a_replica_joins_when_it_holds_what_is_confirmed_and_the_start_of_the_epoch() -> None:
    assert wanted({1}, Replica(2, acked=100)) == {1, 2}
    assert wanted({1}, Replica(2, acked=99)) == {1}
    assert wanted({1}, Replica(2, acked=100), epoch_start=101) == {1}
    assert wanted({1}, Replica(2), confirmed=0) == {1}
    assert wanted({1}, Replica(2, acked=0), confirmed=0) == {1, 2}


def test_a_learner_never_joins() -> None:
    assert wanted({1}, Replica(2, is_learner=True, acked=100)) == {1}


def test_a_replica_leaves_when_it_is_gone_or_too_long_behind() -> None:
    assert wanted({1, 2}) == {1}
    assert wanted({1, 2}, Replica(2, acked=1, caught_up_at=34.0)) == {1}
    assert wanted({1, 2}, Replica(2, acked=1, caught_up_at=36.0)) == {1, 2}


def test_all_members_of_both_sets_must_acknowledge_while_a_change_is_on_its_way() -> None:
    required = SyncSet(members=frozenset({1, 2}), epoch=3, asked=frozenset({1, 3})).required
    replicas = [Replica(2, acked=10), Replica(3, acked=7), Replica(4, acked=1)]
    assert acknowledged_by_all(required, replicas, master_id=1) == 7
    assert acknowledged_by_all(required, replicas[:1], master_id=1) == 0
    assert acknowledged_by_all({1}, replicas, master_id=1) is None


def test_some_members_are_enough_if_not_all_must_acknowledge() -> None:
    replicas = [Replica(2, acked=10), Replica(3, acked=7), Replica(4, acked=99)]
    assert acknowledged_by(0, {1, 2, 3}, replicas) is None
    assert acknowledged_by(1, {1, 2, 3}, replicas) == 10
    assert acknowledged_by(2, {1, 2, 3}, replicas) == 7
    assert acknowledged_by(3, {1, 2, 3}, replicas) == 0


def news(master: int | None, epoch: int, set_epoch: int = 1) -> RoleNews:
    address = "h:1" if master is not None else None
    return RoleNews(
        master_id=master, master_address=address, master_epoch=epoch, members=frozenset(), set_epoch=set_epoch
    )


def test_a_role_changes_only_with_a_newer_epoch() -> None:
    assert change_for(None, news(1, 1), own_id=1) is Change.BECOME_MASTER
    assert change_for(None, news(2, 1), own_id=1) is Change.BECOME_SLAVE
    assert change_for(news(1, 2), news(2, 1), own_id=1) is Change.NOTHING
    assert change_for(news(1, 2), news(1, 2), own_id=1) is Change.NOTHING
    assert change_for(news(1, 2), news(1, 3), own_id=1) is Change.BECOME_MASTER
    assert change_for(news(1, 2), news(None, 3), own_id=1) is Change.ELECT
    assert change_for(news(1, 2, 1), news(1, 2, 2), own_id=1) is Change.USE_SET
