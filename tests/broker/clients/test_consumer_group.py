"""Tests of what one group knows of its members."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.broker.clients.client import Client, language_name, version_name
from hanabi.broker.clients.consumer_group import ConsumerGroup, Member, statement_of
from hanabi.wire.bodies.heartbeat import ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionData
from tests.broker.clients.people import a_client, a_consumer, subscribed


def a_group() -> ConsumerGroup:
    return ConsumerGroup(
        "G", ConsumeType.CONSUME_PASSIVELY, MessageModel.CLUSTERING, ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    )


def a_member(client: Client, *subscriptions: SubscriptionData, seen_ms: int = 0) -> Member:
    data = a_consumer("G", *subscriptions)
    return Member(client, data, list(subscriptions), statement_of("G", data, subscriptions), 0, seen_ms, 0)


def same(*pair: SubscriptionData) -> bool:
    one, two = (statement_of("G", a_consumer("G", subscription), [subscription]) for subscription in pair)
    return one == two


def test_a_newer_version_replaces_an_older_one_and_topics_that_are_not_named_go() -> None:
    group = a_group()
    assert group.merge([subscribed("A", version=5), subscribed("B")])
    assert not group.merge([subscribed("A", "x", version=4), subscribed("B")])
    assert group.subscriptions["A"].sub_string == "*"
    assert not group.merge([subscribed("A", "x", version=6), subscribed("B")])
    assert group.subscriptions["A"].sub_string == "x"
    assert group.merge([subscribed("B"), subscribed("B")])
    assert set(group.subscriptions) == {"B"}


def test_the_order_of_tags_and_the_version_make_no_difference() -> None:
    assert same(subscribed("T", "a || b"), subscribed("T", "b||a", version=9))
    assert same(subscribed("T", "*"), subscribed("T", ""))
    assert same(subscribed("T", "*"), SubscriptionData(topic="T"))


def test_other_tags_another_kind_and_another_topic_make_a_difference() -> None:
    assert not same(subscribed("T", "a"), subscribed("T", "b"))
    assert not same(subscribed("T", "a"), subscribed("U", "a"))
    assert not same(subscribed("T", "a"), subscribed("T", "a", kind="SQL92"))
    assert not same(subscribed("T", "a || b", kind="SQL92"), subscribed("T", "b || a", kind="SQL92"))


def test_the_retry_topic_of_the_group_makes_no_difference_but_that_of_another_does() -> None:
    data = a_consumer("G")
    plain = statement_of("G", data, [subscribed("T")])
    assert plain == statement_of("G", data, [subscribed("T"), subscribed("%RETRY%G")])
    assert plain != statement_of("G", data, [subscribed("T"), subscribed("%RETRY%H")])


def test_the_message_model_makes_a_difference() -> None:
    broadcasting = a_consumer("G", model=MessageModel.BROADCASTING)
    assert statement_of("G", a_consumer("G"), []) != statement_of("G", broadcasting, [])


def test_those_that_do_not_say_what_most_say_differ() -> None:
    group = a_group()
    for number in range(3):
        group.put(a_member(a_client(f"many-{number}"), subscribed("T", "a")))
    assert group.agrees
    assert group.differs == []
    odd = a_client("odd")
    group.put(a_member(odd, subscribed("T", "b")))
    assert not group.agrees
    assert [member.client.client_id for member in group.differs] == ["odd"]
    common, rare = group.opinions()
    assert common.client_ids == ("many-0", "many-1", "many-2")
    assert rare.client_ids == ("odd",)
    assert str(rare.statement) == "CLUSTERING T(b)"
    group.put(a_member(odd, subscribed("T", "a")))
    assert group.agrees


def test_the_newest_of_two_members_with_one_id_is_found_and_the_id_is_listed_once() -> None:
    group = a_group()
    old, new = a_client("same"), a_client("same")
    group.put(a_member(old, seen_ms=1))
    group.put(a_member(new, seen_ms=2))
    group.put(a_member(a_client("other"), seen_ms=3))
    found = group.find("same")
    assert found is not None
    assert found.connection is new.connection
    assert group.client_ids == ("same", "other")
    assert group.encoded_client_ids == b'{"consumerIdList":["same","other"]}'
    group.remove(new.connection)
    assert group.client_ids == ("same", "other")
    group.remove(old.connection)
    assert group.encoded_client_ids == b'{"consumerIdList":["other"]}'


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["a", "b", "c", None]))))
def test_the_count_of_opinions_is_true_whatever_members_say(steps: list[tuple[int, str | None]]) -> None:
    group, clients = a_group(), [a_client(str(number)) for number in range(5)]
    said: dict[str, str] = {}
    for number, tag in steps:
        client = clients[number]
        if tag is None:
            group.remove(client.connection)
            said.pop(client.client_id, None)
        else:
            group.put(a_member(client, subscribed("T", tag)))
            said[client.client_id] = tag
    assert group.agrees == (len(set(said.values())) <= 1)
    assert {
        (next(iter(opinion.statement.wanted))[2], client_id)
        for opinion in group.opinions()
        for client_id in opinion.client_ids
    } == {(tag, client_id) for client_id, tag in said.items()}


def test_languages_are_known_by_name_and_by_number() -> None:
    assert [language_name(language) for language in ("CPP", 1, "KLINGON", 99, None)] == [
        "CPP",
        "CPP",
        "OTHER",
        "OTHER",
        "OTHER",
    ]


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (3, "V3_0_0"),
        (16, "V3_0_1_SNAPSHOT"),
        (28, "V3_0_7_SNAPSHOT"),
        (45, "V3_0_15"),
        (46, "V3_1_0_SNAPSHOT"),
        (61, "V3_1_7"),
        (62, "V3_1_8_SNAPSHOT"),
        (-5, "-5"),
    ],
)
def test_old_versions_have_java_s_names(version: int, name: str) -> None:
    assert version_name(version) == name
