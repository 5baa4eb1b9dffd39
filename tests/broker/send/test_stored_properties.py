"""Tests of what a record keeps of the properties that a client sent. `tests/interop` compares it with Apache's
records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.broker.send.stored_properties import (
    batch_properties,
    delay_level,
    form_of_4_9,
    form_of_5,
    sent_properties,
    without_delay,
)
from hanabi.wire.message.properties import decode_properties, join_properties, parse_properties

OLD = form_of_4_9("c1")
NEW = form_of_5("c1", "r1", "true", lambda: "made up")
ADDED_NEW = {"MSG_REGION": "r1", "TRACE_ON": "true", "CLUSTER": "c1"}

names = st.sampled_from(
    ["WAIT", "CLUSTER", "TAGS", "KEYS", "UNIQ_KEY", "AWAIT", "WAITER", "TRAN_MSG", "DELAY", "MODEL", "POP_CK", ""]
)
values = st.sampled_from(["true", "false", "TRUE", "", "WAIT", "x", "WAIT\x01true", "é", "3"])
texts = st.lists(st.tuples(names, values)).map(lambda pairs: "\x02".join(f"{name}\x01{value}" for name, value in pairs))


@given(texts, st.booleans())
def test_nothing_is_lost_but_wait_and_nothing_is_added_but_the_cluster(text: str, ends_with_separator: bool) -> None:
    sent = text + "\x02" * ends_with_separator
    raw, waits, is_half = sent_properties(sent, OLD)
    asked = parse_properties(sent)
    assert waits == (asked.get("WAIT", "true").lower() == "true")
    assert is_half == (asked.get("TRAN_MSG", "").lower() == "true")
    if not is_half and asked.get("DELAY") != "3":
        asked.pop("WAIT", None)
    assert decode_properties(raw) == {**asked, "CLUSTER": "c1"}


@given(texts, st.booleans())
def test_of_clients_of_5_nothing_is_lost_but_what_pop_says(text: str, ends_with_separator: bool) -> None:
    sent = text + "\x02" * ends_with_separator
    raw, _, _ = sent_properties(sent, NEW)
    asked = parse_properties(sent)
    asked.pop("POP_CK", None)
    assert raw.endswith(b"\x02")
    assert decode_properties(raw) == {"UNIQ_KEY": "made up", **asked, **ADDED_NEW}


@pytest.mark.parametrize("end", ["", "\x02"])
def test_the_usual_properties_of_a_java_client_are_stored_as_apache_stores_them(end: str) -> None:
    text = "UNIQ_KEY\x01A1\x02WAIT\x01true\x02TAGS\x01t\x02KEYS\x01k" + end
    assert sent_properties(text, OLD)[0] == b"KEYS\x01k\x02UNIQ_KEY\x01A1\x02CLUSTER\x01c1\x02TAGS\x01t"
    assert sent_properties(text, NEW)[0] == (
        b"MSG_REGION\x01r1\x02UNIQ_KEY\x01A1\x02CLUSTER\x01c1\x02TAGS\x01t\x02KEYS\x01k\x02WAIT\x01true\x02"
        b"TRACE_ON\x01true\x02"
    )


@pytest.mark.parametrize(
    "text", ["", "WAIT\x01true", "WAIT\x01true\x02", "WAIT\x01true\x02WAIT\x01true", "CLUSTER\x01x"]
)
def test_without_properties_the_cluster_is_the_only_one(text: str) -> None:
    assert sent_properties(text, OLD)[0] == b"CLUSTER\x01c1"


@pytest.mark.parametrize("why", ["DELAY\x013", "TRAN_MSG\x01true"])
def test_a_message_that_is_put_elsewhere_keeps_its_wait(why: str) -> None:
    raw, waits, _ = sent_properties(f"WAIT\x01false\x02{why}", OLD)
    assert decode_properties(raw) == parse_properties(f"WAIT\x01false\x02CLUSTER\x01c1\x02{why}")
    assert not waits


def test_what_a_batch_says_follows_what_its_message_says_and_wins() -> None:
    shared, waits = batch_properties("UNIQ_KEY\x01batch\x02WAIT\x01false\x02TAGS\x01b\x02KEYS\x01k", OLD)
    assert not waits
    own = b"UNIQ_KEY\x01own\x02WAIT\x01true\x02TAGS\x01o"
    raw = join_properties(own, shared)
    assert raw == own + b"\x02KEYS\x01k\x02CLUSTER\x01c1\x02WAIT\x01false\x02TAGS\x01b"
    assert decode_properties(raw)["UNIQ_KEY"] == "own"  # not the batch's, by which its messages were all the same


def test_bytes_in_a_batch_that_are_not_utf8_are_stored_as_they_came() -> None:
    shared, _ = batch_properties("", OLD)
    assert join_properties(b"TAGS\x01\xff\xfe", shared) == b"TAGS\x01\xff\xfe\x02CLUSTER\x01c1"


def test_a_delay_can_be_taken_out() -> None:
    raw = b"DELAY\x013\x02TAGS\x01DELAY\x02TIMER_DELIVER_MS\x015\x02TIMER_DELAY_SEC\x011\x02TIMER_DELAY_MS\x019"
    assert without_delay(raw) == b"TAGS\x01DELAY"
    assert without_delay(raw + b"\x02") == b"TAGS\x01DELAY\x02"


@pytest.mark.parametrize(("raw", "level"), [(b"DELAY\x013", 3), (b"DELAY\x01x", 0), (b"", 0), (b"XDELAY\x014", 0)])
def test_a_delay_level_is_read_from_its_own_property_alone(raw: bytes, level: int) -> None:
    assert delay_level(raw) == level
