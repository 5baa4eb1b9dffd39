"""What a record keeps of the properties that a client sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.broker.stored_properties import (
    batch_properties,
    cluster_property,
    delay_level,
    in_batch,
    sent_properties,
    without_delay,
)
from hanabi.wire.properties import decode_properties, parse_properties

CLUSTER = cluster_property("c1")

names = st.sampled_from(
    ["WAIT", "CLUSTER", "TAGS", "KEYS", "UNIQ_KEY", "AWAIT", "WAITER", "TRAN_MSG", "DELAY", "MODEL", ""]
)
values = st.sampled_from(["true", "false", "TRUE", "", "WAIT", "x", "WAIT\x01true", "é"])
texts = st.lists(st.tuples(names, values)).map(lambda pairs: "\x02".join(f"{name}\x01{value}" for name, value in pairs))


@given(texts, st.booleans())
def test_nothing_is_lost_but_wait_and_nothing_is_added_but_the_cluster(text: str, ends_with_separator: bool) -> None:
    sent = text + "\x02" * ends_with_separator
    raw, waits, is_half = sent_properties(sent, CLUSTER)
    asked = parse_properties(sent)
    wait = asked.get("WAIT")
    if "\x02DELAY\x01" not in f"\x02{sent}":
        asked.pop("WAIT", None)
    assert decode_properties(raw) == {**asked, "CLUSTER": "c1"}
    assert waits == (wait is None or wait.lower() == "true")
    assert is_half == (asked.get("TRAN_MSG", "").lower() == "true")


def test_the_usual_properties_of_a_java_client_are_stored_without_a_gap() -> None:
    text = "UNIQ_KEY\x01A1\x02WAIT\x01true\x02TAGS\x01t"
    assert sent_properties(text, CLUSTER)[0] == b"UNIQ_KEY\x01A1\x02TAGS\x01t\x02CLUSTER\x01c1"
    assert sent_properties(text + "\x02", CLUSTER)[0] == b"UNIQ_KEY\x01A1\x02TAGS\x01t\x02CLUSTER\x01c1"


@pytest.mark.parametrize(
    "text", ["", "WAIT\x01true", "WAIT\x01true\x02", "WAIT\x01true\x02WAIT\x01true", "CLUSTER\x01x"]
)
def test_without_properties_the_cluster_is_the_only_one(text: str) -> None:
    assert sent_properties(text, CLUSTER)[0] == b"CLUSTER\x01c1"


def test_a_message_that_waits_keeps_its_wait() -> None:
    raw, waits, _ = sent_properties("WAIT\x01false\x02DELAY\x013", CLUSTER)
    assert decode_properties(raw) == {"WAIT": "false", "DELAY": "3", "CLUSTER": "c1"}
    assert not waits


def test_what_a_message_of_a_batch_says_itself_goes_before_what_the_batch_says() -> None:
    shared, waits = batch_properties("UNIQ_KEY\x01batch\x02WAIT\x01false\x02TAGS\x01b\x02KEYS\x01k")
    assert not waits
    raw = in_batch(shared, b"UNIQ_KEY\x01own\x02TAGS\x01o", CLUSTER)
    assert decode_properties(raw) == {"UNIQ_KEY": "own", "TAGS": "o", "KEYS": "k", "CLUSTER": "c1"}


def test_bytes_in_a_batch_that_are_not_utf8_are_stored_as_they_came() -> None:
    assert in_batch("", b"TAGS\x01\xff\xfe", CLUSTER) == b"TAGS\x01\xff\xfe\x02CLUSTER\x01c1"


def test_a_delay_can_be_taken_out() -> None:
    raw = b"DELAY\x013\x02TAGS\x01DELAY\x02TIMER_DELIVER_MS\x015\x02TIMER_DELAY_SEC\x011\x02TIMER_DELAY_MS\x019"
    assert without_delay(raw) == b"TAGS\x01DELAY"


@pytest.mark.parametrize(("raw", "level"), [(b"DELAY\x013", 3), (b"DELAY\x01x", 0), (b"", 0), (b"XDELAY\x014", 0)])
def test_a_delay_level_is_read_from_its_own_property_alone(raw: bytes, level: int) -> None:
    assert delay_level(raw) == level
