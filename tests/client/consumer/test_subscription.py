"""Tests of what brokers hear of a subscription, and the second look at tags."""

import pytest

from hanabi.client.consumer.subscription import Sql, sql, subscription_data, wants
from hanabi.errors import ConfigError


def test_everything_is_subscribed_to_with_a_star_or_with_nothing() -> None:
    for text in ("*", ""):
        subscription = subscription_data("Orders", text, 7)
        assert (subscription.sub_string, subscription.tags_set, subscription.code_set) == ("*", [], [])
        assert subscription.sub_version == 7
        assert wants(subscription, None)
        assert wants(subscription, "anything")


def test_tags_travel_with_the_hash_codes_that_brokers_compare() -> None:
    subscription = subscription_data("Orders", " created||paid ||\tcreated || ", 7)
    assert subscription.sub_string == " created||paid ||\tcreated || "
    assert subscription.tags_set == ["created", "paid"]
    assert subscription.code_set == [1028554472, 3433164]
    assert subscription.expression_type == "TAG"


def test_a_tag_with_the_same_hash_code_as_one_wanted_is_not_wanted() -> None:
    subscription = subscription_data("Orders", "Aa", 7)
    assert wants(subscription, "Aa")
    assert not wants(subscription, "BB")  # the same code in Java
    assert not wants(subscription, None)


def test_an_expression_travels_as_it_is() -> None:
    subscription = subscription_data("Orders", sql("amount > 100"), 7)
    assert (subscription.sub_string, subscription.expression_type) == ("amount > 100", "SQL92")
    assert (subscription.tags_set, subscription.code_set) == ([], [])
    assert wants(subscription, None)


def test_a_subscription_without_a_tag_or_expression_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no tag in '\|\|'"):
        subscription_data("Orders", "||", 7)
    with pytest.raises(ConfigError, match="needs an expression"):
        Sql("  ")
