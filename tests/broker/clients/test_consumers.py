"""The table of consuming groups."""

import logging
from collections.abc import Callable

import pytest

from hanabi.broker.clients import consumers as consumers_module
from hanabi.broker.clients.client import Client
from hanabi.broker.clients.consumers import EXPIRY_MS
from hanabi.errors import SystemBusy
from hanabi.wire.bodies.heartbeat import MessageModel
from tests.broker.clients.people import Table, a_client, a_consumer, subscribed
from tests.steps import steps


def test_a_group_is_there_while_it_has_members() -> None:
    table, one = Table(), a_client("one")
    assert table.consumers.heartbeat(one, a_consumer("G", subscribed("T", "a")))
    assert table.consumers.client_ids("G") == ("one",)
    assert table.consumers.subscription("G", "T") == subscribed("T", "a")
    assert table.consumers.groups_of_topic("T") == {"G"}
    assert one.connection in table.consumers
    table.consumers.unregister("G", one.connection)
    assert table.consumers.find_group("G") is None
    assert table.consumers.client_ids("G") == ()
    assert table.consumers.subscription("G", "T") is None
    assert table.heard.unregistered == ["G"]
    assert table.heard.left == [("G", "one", True)]
    assert one.connection not in table.consumers


def test_the_group_is_told_when_members_or_subscriptions_change_and_only_then() -> None:
    table, one, two = Table(), a_client("one"), a_client("two")
    said = a_consumer("G", subscribed("T"))
    steps: list[tuple[Callable[[], object], int]] = [
        (lambda: table.consumers.heartbeat(one, said), 1),
        (lambda: table.consumers.heartbeat(one, said), 0),
        (lambda: table.consumers.heartbeat(two, said), 1),
        (lambda: table.consumers.heartbeat(one, said), 0),
        (lambda: table.consumers.heartbeat(one, a_consumer("G", subscribed("T"), subscribed("U"))), 1),
        (lambda: table.consumers.unregister("G", a_client("stranger").connection), 0),
        (lambda: table.consumers.unregister("unknown", one.connection), 0),
        (lambda: table.consumers.unregister("G", one.connection), 1),
        (lambda: list(table.consumers.leaving(two.connection)), 0),  # nobody is left to be told
    ]
    for step, notices in steps:
        table.heard.told.clear()
        step()
        assert len(table.heard.told) == notices


def test_a_group_that_wants_no_notices_gets_none_also_when_members_go() -> None:
    table, one, two = Table(), a_client("one"), a_client("two")
    for client in (one, two):
        table.consumers.heartbeat(client, a_consumer("G", subscribed("T")), notifies=False)
    list(table.consumers.leaving(one.connection))
    assert table.heard.told == []


def test_broadcasting_groups_share_nothing_and_are_told_nothing() -> None:
    table = Table()
    for client_id in ("one", "two"):
        table.consumers.heartbeat(a_client(client_id), a_consumer("G", model=MessageModel.BROADCASTING))
    assert table.heard.told == []


def test_a_closed_connection_leaves_all_its_groups() -> None:
    table, one, two = Table(), a_client("one"), a_client("two")
    for group in ("A", "B"):
        table.consumers.heartbeat(one, a_consumer(group))
    table.consumers.heartbeat(two, a_consumer("B"))
    table.heard.told.clear()
    list(table.consumers.leaving(one.connection))
    assert set(table.consumers.groups()) == {"B"}
    assert table.heard.told == ["B"]
    assert sorted(table.heard.left) == [("A", "one", False), ("B", "one", False)]


def test_silence_of_120_seconds_is_the_end_and_those_who_remain_are_told() -> None:
    table, quiet, alive = Table(), a_client("quiet"), a_client("alive")
    for client in (quiet, alive):
        table.consumers.heartbeat(client, a_consumer("G"))
    table.clock.ms += EXPIRY_MS
    assert list(table.consumers.expiring()) == []
    table.consumers.heartbeat(alive, a_consumer("G"))
    table.heard.told.clear()
    table.clock.ms += 1
    assert list(table.consumers.expiring()) == [quiet.connection]
    assert table.consumers.client_ids("G") == ("alive",)
    assert table.heard.told == ["G"]


def test_a_client_that_connected_anew_has_not_left_when_its_old_connection_ends() -> None:
    table, old, new = Table(), a_client("same"), a_client("same")
    table.consumers.heartbeat(old, a_consumer("G"))
    table.consumers.heartbeat(new, a_consumer("G"))
    list(table.consumers.leaving(old.connection))
    assert table.heard.left == []
    assert table.consumers.client_ids("G") == ("same",)
    list(table.consumers.leaving(new.connection))
    assert table.heard.left == [("G", "same", False)]


def test_a_connection_that_takes_another_id_is_a_new_member() -> None:
    table, before = Table(), a_client("before")
    table.consumers.heartbeat(before, a_consumer("G"))
    table.heard.told.clear()
    table.consumers.heartbeat(Client("after", before.connection, "JAVA", 409), a_consumer("G"))
    assert table.consumers.client_ids("G") == ("after",)
    assert table.heard.told == ["G"]
    assert table.heard.left == [("G", "before", False)]


def test_one_id_at_two_connections_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    table = Table()
    for _ in range(2):
        table.consumers.heartbeat(a_client("same"), a_consumer("G"))
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "client id same more than once" in warning.getMessage()


# Members that subscribe differently


def test_members_that_subscribe_differently_are_logged_once_and_again_only_for_news(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, consumers_module.__name__)

    def lines() -> list[str]:
        found = [record.getMessage() for record in caplog.records if "subscribe" in record.getMessage()]
        caplog.clear()
        return found

    table, one, two = Table(), a_client("one"), a_client("two")
    first, second = a_consumer("G", subscribed("A")), a_consumer("G", subscribed("B", "x"))
    table.consumers.heartbeat(one, first)
    assert lines() == []
    table.consumers.heartbeat(two, second)
    (line,) = lines()
    assert "group G: 1 of 2 members subscribe differently" in line
    assert "1 (one) subscribe CLUSTERING A(*); 1 (two) subscribe CLUSTERING B(x)" in line
    for _ in range(3):
        table.consumers.heartbeat(one, first)
        table.consumers.heartbeat(two, second)
    assert lines() == []
    assert table.consumers.differing() == [table.group()]
    table.consumers.heartbeat(two, a_consumer("G", subscribed("C")))
    assert len(lines()) == 1
    table.consumers.heartbeat(two, first)
    assert lines() == ["group G: all members subscribe alike again"]
    assert table.consumers.differing() == []


def test_a_group_in_which_everybody_says_something_else_does_not_fill_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = Table()
    for number in range(100):
        table.consumers.heartbeat(a_client(str(number)), a_consumer("G", subscribed(f"T{number}")))
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert 0 < len(warnings) < 10
    assert max(map(len, warnings)) < 2_000
    assert len(table.group().differs) == 99


def test_the_merged_table_follows_whoever_spoke_last_and_nobody_is_told_of_that() -> None:
    table, one, two = Table(), a_client("one"), a_client("two")
    first, second = a_consumer("G", subscribed("A")), a_consumer("G", subscribed("B"))
    table.consumers.heartbeat(one, first)
    table.consumers.heartbeat(two, second)
    table.heard.told.clear()
    for _ in range(3):
        table.consumers.heartbeat(one, first)
        assert set(table.group().subscriptions) == {"A"}
        assert table.heard.registered[-1] == ("G", ["A"])
        table.consumers.heartbeat(two, second)
        assert set(table.group().subscriptions) == {"B"}
        assert table.heard.registered[-1] == ("G", ["B"])
    assert table.heard.told == []


def test_what_a_member_that_left_subscribed_to_goes_with_the_next_heartbeat() -> None:
    table, one, two = Table(), a_client("one"), a_client("two")
    table.consumers.heartbeat(one, a_consumer("G", subscribed("A")))
    table.consumers.heartbeat(two, a_consumer("G", subscribed("A"), subscribed("B")))
    list(table.consumers.leaving(two.connection))
    assert set(table.group().subscriptions) == {"A", "B"}
    table.consumers.heartbeat(one, a_consumer("G", subscribed("A")))
    assert set(table.group().subscriptions) == {"A"}


def test_the_message_model_is_that_of_whoever_spoke_last_also_after_another_one_left() -> None:
    table, one, two = Table(), a_client("one"), a_client("two")
    table.consumers.heartbeat(one, a_consumer("G"))
    table.consumers.heartbeat(two, a_consumer("G", model=MessageModel.BROADCASTING))
    assert table.group().message_model is MessageModel.BROADCASTING
    assert [member.client.client_id for member in table.group().differs] == ["two"]
    list(table.consumers.leaving(two.connection))
    table.consumers.heartbeat(one, a_consumer("G"))
    assert table.group().message_model is MessageModel.CLUSTERING


# Expressions


def test_filters_hear_of_changes_and_of_expressions_with_every_heartbeat() -> None:
    table, plain, clever = Table(), a_client("plain"), a_client("clever")
    said = a_consumer("tags", subscribed("T", "a"))
    for _ in range(3):
        table.consumers.heartbeat(plain, said)
    assert table.heard.registered == [("tags", ["T"])]
    for _ in range(2):
        table.consumers.heartbeat(clever, a_consumer("sql", subscribed("T", "a > 1", kind="SQL92")))
    assert table.heard.registered[1:] == [("sql", ["T"])] * 2


# Fingerprints


def test_a_fingerprint_alone_is_enough_once_the_member_has_said_it_in_full() -> None:
    table, one = Table(), a_client("one")
    assert table.consumers.heartbeat(one, a_consumer("G", subscribed("T", "a")), fingerprint=7)
    assert table.consumers.heartbeat(one, a_consumer("G"), fingerprint=7, without_subscriptions=True)
    assert table.consumers.subscription("G", "T") == subscribed("T", "a")
    assert table.group().agrees


def test_a_fingerprint_that_we_do_not_know_must_be_said_in_full() -> None:
    table, one = Table(), a_client("one")
    assert not table.consumers.heartbeat(one, a_consumer("G"), fingerprint=7, without_subscriptions=True)
    assert table.consumers.client_ids("G") == ("one",)
    assert not table.consumers.heartbeat(one, a_consumer("G"), fingerprint=7, without_subscriptions=True)
    assert table.consumers.heartbeat(one, a_consumer("G", subscribed("T")), fingerprint=7)
    assert table.consumers.heartbeat(one, a_consumer("G"), fingerprint=7, without_subscriptions=True)
    assert not table.consumers.heartbeat(one, a_consumer("G"), fingerprint=8, without_subscriptions=True)


def test_a_fingerprint_that_another_member_explained_is_known() -> None:
    table, one, two = Table(), a_client("one"), a_client("two")
    table.consumers.heartbeat(one, a_consumer("G", subscribed("T")), fingerprint=7)
    assert table.consumers.heartbeat(two, a_consumer("G"), fingerprint=7, without_subscriptions=True)
    assert table.group().agrees
    list(table.consumers.leaving(one.connection))
    assert table.consumers.heartbeat(two, a_consumer("G"), fingerprint=7, without_subscriptions=True)
    assert table.consumers.subscription("G", "T") == subscribed("T")


def test_a_member_of_whom_we_know_nothing_yet_does_not_differ() -> None:
    table = Table()
    table.consumers.heartbeat(a_client("one"), a_consumer("G", subscribed("T")))
    table.consumers.heartbeat(a_client("two"), a_consumer("G"), fingerprint=7, without_subscriptions=True)
    assert table.group().agrees
    assert set(table.group().subscriptions) == {"T"}


# Limits


def test_all_subscriptions_together_are_bounded_and_those_who_leave_make_room() -> None:
    table, one, two = Table(remembered_bytes_max=10_000), a_client("one"), a_client("two")
    many = a_consumer("G", *(subscribed(f"T{number}") for number in range(15)))
    table.consumers.heartbeat(one, many)
    with pytest.raises(SystemBusy, match="subscriptions of all clients"):
        table.consumers.heartbeat(two, many)
    assert table.consumers.client_ids("G") == ("one",)
    assert two.connection not in table.consumers
    table.consumers.heartbeat(one, many)
    list(table.consumers.leaving(one.connection))
    table.consumers.heartbeat(two, many)


def test_a_heartbeat_costs_the_same_however_many_others_there_are() -> None:
    def cost(table: Table) -> int:
        client, said = a_client("me"), a_consumer("mine", subscribed("T"))

        def come_and_go() -> None:
            for _ in range(3):
                table.consumers.heartbeat(client, said)
            list(table.consumers.leaving(client.connection))
            table.consumers.heartbeat(client, said)

        return steps(come_and_go)

    crowded = Table()
    for number in range(5_000):
        crowded.consumers.heartbeat(a_client(f"c{number}"), a_consumer(f"G{number}", subscribed("T")))
    assert cost(crowded) < 2 * cost(Table())  # a walk through the others would make it a thousand times
