"""Decisions of the controller, without sockets and clock."""

import msgspec
import pytest

from hanabi.controller.rules.cleaning import clean
from hanabi.controller.rules.election import elect, needs_election
from hanabi.controller.rules.ids import apply_id, next_id
from hanabi.controller.rules.in_sync import alter
from hanabi.controller.rules.registration import register, replica_info
from hanabi.controller.rules.state import BrokerSet, Decision, Live
from hanabi.wire.bodies.v5.controller import SyncStateSetBody
from hanabi.wire.headers.v5 import controller as headers
from tests.controller.rules.brokers import alive, broker_set, live

ELECT = headers.ElectMasterHeader(cluster_name="c", broker_name="a")


def applied(state: BrokerSet | None, number: int, code: str, cluster: str = "c") -> Decision:
    asked = headers.ApplyBrokerIdHeader(
        cluster_name=cluster, broker_name="a", applied_broker_id=number, register_check_code=code
    )
    return apply_id(state, asked)


# ---- ids -------------------------------------------------------------------------------------------------------------


def test_ids_are_given_away_once_and_again_to_the_same_check_code() -> None:
    asked = headers.GetNextBrokerIdHeader(cluster_name="c", broker_name="a")
    first = next_id(None, asked).answer.header
    assert isinstance(first, headers.GetNextBrokerIdReplyHeader)
    assert first.next_broker_id == 1
    state = applied(None, 1, "h1:1;5").state
    assert state is not None
    assert (state.next_id, state.replicas[1].address, state.master_epoch) == (2, "h1:1", 0)
    assert applied(state, 1, "h2:1;6").answer.code == 2014
    again = applied(state, 1, "h1:1;5")
    assert again.answer.code == 0
    assert again.state is state


@pytest.mark.parametrize("number", [0, -1, 2, 9])
def test_only_the_next_id_can_be_applied_for(number: int) -> None:
    assert applied(None, number, "h:1;5").answer.code == 2014


def test_an_id_is_not_reused_after_its_broker_was_cleaned() -> None:
    asked = headers.CleanBrokerDataHeader(broker_name="a", cluster_name="c", broker_controller_ids_to_clean="3")
    state = clean(broker_set(1, 2, 3), asked, alive(1)).state
    assert state is not None
    assert applied(state, 3, "h:1;5").answer.code == 2014
    assert applied(state, 4, "h:1;5").answer.code == 0


def test_a_broker_of_another_cluster_is_refused_with_both_names() -> None:
    refusal = applied(broker_set(1), 2, "h:1;5", cluster="other").answer
    assert refusal.code == 2005
    assert "cluster c here, not to other" in (refusal.remark or "")


# ---- registration ----------------------------------------------------------------------------------------------------


def registered(state: BrokerSet | None, number: int, living: dict[int, Live], address: str) -> Decision:
    asked = headers.RegisterToControllerHeader(
        cluster_name="c", broker_name="a", broker_id=number, broker_address=address
    )
    return register(state, asked, living)


def test_a_registration_returns_a_living_master_and_moves_the_address() -> None:
    decision = registered(broker_set(1, 2), 2, alive(1), "new:1")
    header = decision.answer.header
    assert isinstance(header, headers.RegisterToControllerReplyHeader)
    assert (header.master_broker_id, header.master_address, header.master_epoch) == (1, "h1:10911", 3)
    assert decision.state is not None
    assert decision.state.address_of(2) == "new:1"
    silent = registered(broker_set(1, 2), 2, {}, "h2:10911")
    assert isinstance(silent.answer.header, headers.RegisterToControllerReplyHeader)
    assert silent.answer.header.master_broker_id is None


def test_a_master_that_starts_again_resigns_to_a_living_replica_in_sync() -> None:
    decision = registered(broker_set(1, 2, 3, in_sync={1, 2, 3}), 1, alive(1, 2), "h1:10911")
    state = decision.state
    assert state is not None
    assert (state.master_id, state.master_epoch, set(state.in_sync), state.sync_epoch) == (None, 4, {2, 3}, 8)
    assert isinstance(decision.answer.header, headers.RegisterToControllerReplyHeader)
    assert decision.answer.header.master_broker_id is None
    elected = elect(state, msgspec.structs.replace(ELECT, broker_id=1), alive(1, 2)).state
    assert elected is not None
    assert (elected.master_id, elected.master_epoch, set(elected.in_sync)) == (2, 5, {2})


def test_a_master_that_starts_again_alone_begins_a_new_epoch() -> None:
    state = registered(broker_set(1, 2, in_sync={1, 2}), 1, alive(1), "h1:10911").state
    assert state is not None
    assert (state.master_id, state.master_epoch, set(state.in_sync), state.sync_epoch) == (1, 4, {1, 2}, 7)


def test_a_slave_that_starts_again_is_not_in_sync_before_its_master_says_so() -> None:
    state = registered(broker_set(1, 2, in_sync={1, 2}), 2, alive(1, 2), "h2:10911").state
    assert state is not None
    assert (state.master_id, state.master_epoch, set(state.in_sync), state.sync_epoch) == (1, 3, {1}, 8)
    whole = broker_set(1, 2, in_sync={1, 2})
    assert registered(whole, 2, {}, "h2:10911").state is whole


def test_an_id_of_a_living_broker_is_not_given_to_another_address() -> None:
    refusal = registered(broker_set(1, 2), 2, alive(1, 2), "thief:1").answer
    assert (refusal.code, "h2:10911" in (refusal.remark or "")) == (2014, True)


def test_an_unknown_broker_and_one_from_the_future_are_told_what_to_do() -> None:
    lost = registered(None, 2, {}, "h:1").answer
    assert (lost.code, "restore" in (lost.remark or "")) == (2010, True)
    future = registered(broker_set(1, 2), 2, {2: live(2, epoch=4)}, "h2:10911").answer
    assert (future.code, "epoch 4" in (future.remark or "")) == (2005, True)
    asked = msgspec.structs.replace(ELECT, broker_id=2)
    assert elect(broker_set(1, 2), asked, {2: live(2, epoch=4)}).answer.code == 2005


def test_an_unknown_name_has_no_replica_info() -> None:
    assert replica_info(None, headers.GetReplicaInfoHeader(broker_name="a")).answer.code == 2008


# ---- elections -------------------------------------------------------------------------------------------------------


def test_the_first_to_ask_becomes_the_first_master() -> None:
    state = broker_set(1, 2, master=None, epoch=0, in_sync=set(), sync_epoch=0)
    after = elect(state, msgspec.structs.replace(ELECT, broker_id=2), {}).state
    assert after is not None
    assert (after.master_id, after.master_epoch, after.in_sync, after.sync_epoch) == (2, 1, frozenset({2}), 1)
    assert elect(state, msgspec.structs.replace(ELECT, broker_id=3), {}).answer.code == 2010


def test_a_living_master_stays_unless_another_is_designated() -> None:
    state = broker_set(1, 2, in_sync={1, 2})
    kept = elect(state, ELECT, alive(1, 2))
    assert (kept.answer.code, kept.state is state) == (2011, True)
    wanted = msgspec.structs.replace(ELECT, broker_id=2, designate_elect=True)
    after = elect(state, wanted, alive(1, 2)).state
    assert after is not None
    assert (after.master_id, after.master_epoch, after.in_sync, after.sync_epoch) == (2, 4, frozenset({2}), 8)
    outside = elect(broker_set(1, 2, in_sync={1}), wanted, alive(1, 2))
    assert outside.answer.code == 2012


@pytest.mark.parametrize(
    ("two", "three", "winner"),
    [
        (live(2, epoch=2, max_offset=900), live(3, epoch=3, max_offset=1), 3),
        (live(2, max_offset=5), live(3, max_offset=2**31 + 6), 3),  # apache/rocketmq#8380
        (live(2, max_offset=5 + 2**32), live(3, max_offset=6), 2),
        (live(2, max_offset=5, priority=2), live(3, max_offset=5, priority=1), 3),
        (live(2, max_offset=5), live(3, max_offset=5), 2),
    ],
)
def test_epoch_offset_and_priority_decide_in_this_order(two: Live, three: Live, winner: int) -> None:
    after = elect(broker_set(1, 2, 3, in_sync={1, 2, 3}), ELECT, {2: two, 3: three}).state
    assert after is not None
    assert after.master_id == winner


def test_without_a_living_member_there_is_no_master_and_the_set_stays() -> None:
    state = broker_set(1, 2, in_sync={1})
    gone = elect(state, ELECT, alive(2))
    assert (gone.answer.code, gone.state) == (2004, broker_set(1, 2, master=None, epoch=4, in_sync={1}))
    again = elect(gone.state, ELECT, alive(2))
    assert again.state is gone.state  # epochs do not run away
    assert elect(gone.state, msgspec.structs.replace(ELECT, broker_id=2), alive(2)).answer.code == 2012
    back = elect(gone.state, msgspec.structs.replace(ELECT, broker_id=1), alive(1, 2)).state
    assert back is not None
    assert (back.master_id, back.master_epoch) == (1, 5)


def test_an_unclean_election_takes_a_replica_that_is_not_in_sync_only_if_allowed() -> None:
    after = elect(broker_set(1, 2, in_sync={1}), ELECT, alive(2), unclean=True).state
    assert after is not None
    assert after.master_id == 2


def test_an_election_is_needed_only_if_one_could_be_elected() -> None:
    assert needs_election(broker_set(1, 2), alive(2))
    assert not needs_election(broker_set(1, 2), alive(1, 2))
    assert not needs_election(broker_set(1, 2), {})
    assert not needs_election(broker_set(1, 2, master=None), alive(2))


# ---- replicas in sync ------------------------------------------------------------------------------------------------


def altered(
    state: BrokerSet | None, members: list[int], *, epoch: int = 7, master: int = 1, term: int = 3, up: str = "123"
) -> Decision:
    asked = headers.AlterSyncStateSetHeader(broker_name="a", master_broker_id=master, master_epoch=term)
    body = SyncStateSetBody(sync_state_set=members, sync_state_set_epoch=epoch)
    return alter(state, asked, body, alive(*map(int, up)))


def test_a_set_grows_and_shrinks_with_its_epoch() -> None:
    grown = altered(broker_set(1, 2, 3), [1, 2]).state
    assert grown is not None
    assert (grown.in_sync, grown.sync_epoch, grown.master_epoch) == (frozenset({1, 2}), 8, 3)
    shrunk = altered(grown, [1], epoch=8, up="1").state
    assert shrunk is not None
    assert (shrunk.in_sync, shrunk.sync_epoch) == (frozenset({1}), 9)


@pytest.mark.parametrize(
    ("decision", "code"),
    [
        (altered(None, [1]), 2013),
        (altered(broker_set(1, 2), [1]), 2013),
        (altered(broker_set(1, 2), [1, 2], master=2), 2002),
        (altered(broker_set(1, 2, master=None), [1, 2]), 2002),
        (altered(broker_set(1, 2), [1, 2], term=2), 2000),
        (altered(broker_set(1, 2), [1, 2], epoch=6), 2001),
        (altered(broker_set(1, 2), [1, 9]), 2003),
        (altered(broker_set(1, 2), [1, 2], up="1"), 2006),
        (altered(broker_set(1, 2), [2]), 2013),
    ],
)
def test_a_set_that_cannot_be_is_refused_and_changes_nothing(decision: Decision, code: int) -> None:
    assert decision.answer.code == code
    assert decision.state in (None, broker_set(1, 2), broker_set(1, 2, master=None))


def test_a_change_whose_reply_was_lost_is_answered_again() -> None:
    grown = altered(broker_set(1, 2), [1, 2]).state
    repeated = altered(grown, [1, 2])
    assert (repeated.answer.code, repeated.state is grown) == (0, True)
    assert repeated.answer.header == headers.AlterSyncStateSetReplyHeader(new_sync_state_set_epoch=8)


# ---- cleaning --------------------------------------------------------------------------------------------------------


def cleaned(ids: str | None, up: str, *, living: bool = False) -> Decision:
    asked = headers.CleanBrokerDataHeader(
        broker_name="a", cluster_name="c", broker_controller_ids_to_clean=ids, is_clean_living_broker=living
    )
    return clean(broker_set(1, 2, in_sync={1, 2}), asked, alive(*map(int, up)))


def test_silent_replicas_are_removed_and_living_ones_only_if_wanted() -> None:
    assert cleaned("2", "12").answer.code == 2009
    assert cleaned("x", "1").answer.code == 2009
    assert cleaned(None, "1").answer.code == 2009
    without = cleaned("2", "1").state
    assert without is not None
    assert (without.in_sync, without.sync_epoch, without.master_id, sorted(without.replicas)) == (
        frozenset({1}),
        8,
        1,
        [1],
    )
    masterless = cleaned("1", "12", living=True).state
    assert masterless is not None
    assert (masterless.master_id, masterless.master_epoch, masterless.in_sync) == (None, 4, frozenset({2}))
    assert cleaned(None, "").state is None
    assert cleaned("1;2", "").state is None
