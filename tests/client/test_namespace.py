"""Names with and without their namespace."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.client.namespace import dead_letter_topic, retry_topic, unwrap, wrap
from hanabi.wire.system_names import is_system

NAMES = st.text(alphabet="abcXYZ019_-|", min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("name", "wrapped"),
    [
        ("Orders", "shop%Orders"),
        ("%RETRY%billing", "%RETRY%shop%billing"),
        ("%DLQ%billing", "%DLQ%shop%billing"),
        ("shop%Orders", "shop%Orders"),
        ("%RETRY%shop%billing", "%RETRY%shop%billing"),
        ("TBW102", "TBW102"),
        ("RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRACE_TOPIC"),
        ("rmq_sys_wheel_timer", "rmq_sys_wheel_timer"),
        ("CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_TRANS"),
        ("", ""),
    ],
)
def test_a_name_gets_its_namespace_where_apache_puts_it(name: str, wrapped: str) -> None:
    assert wrap("shop", name) == wrapped


def test_without_a_namespace_names_stay_as_they_are() -> None:
    assert wrap("", "Orders") == "Orders"
    assert unwrap("", "shop%Orders") == "shop%Orders"


def test_a_name_of_another_namespace_is_not_unwrapped() -> None:
    assert unwrap("shop", "bank%Orders") == "bank%Orders"
    assert unwrap("shop", "%RETRY%bank%billing") == "%RETRY%bank%billing"
    assert unwrap("shop", "shopping%Orders") == "shopping%Orders"


def test_retry_and_dead_letter_topics_carry_the_namespace_of_their_group() -> None:
    assert retry_topic("shop", "billing") == "%RETRY%shop%billing"
    assert retry_topic("", "billing") == "%RETRY%billing"
    assert dead_letter_topic("shop", "billing") == "%DLQ%shop%billing"


@given(namespace=NAMES, name=NAMES, prefix=st.sampled_from(["", "%RETRY%", "%DLQ%"]))
def test_what_was_wrapped_is_unwrapped_again(namespace: str, name: str, prefix: str) -> None:
    whole = prefix + name
    assert unwrap(namespace, wrap(namespace, whole)) == whole
    assert wrap(namespace, wrap(namespace, whole)) == wrap(namespace, whole)


def test_the_brokers_own_names_are_known() -> None:
    assert is_system("SCHEDULE_TOPIC_XXXX")
    assert not is_system("Orders")
