"""The express lane stores of properties what the handlers do, whatever it remembers of others, or leaves them alone."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.broker.plain_properties import PlainProperties, batched_sends, single_sends
from hanabi.broker.stored_properties import form_of_4_9, form_of_5, sent_properties
from hanabi.wire.properties import decode_properties
from hanabi.wire.tags import tags_code

ADDED = form_of_4_9("DefaultCluster")
ADDED_NEW = form_of_5("DefaultCluster", "r", "true", lambda: "made up")
KEYS = ("7F0000011A2B251A69D701C5F3A000A7", "7F0000011A2B251A69D701C5F3A000A8", "short")

names = st.sampled_from(["UNIQ_KEY", "xUNIQ_KEY", "UNIQ_KEY_", "KEYS", "TAGS", "WAIT", "CLUSTER", "TRAN_MSG", "x", ""])
values = st.sampled_from(
    [*KEYS, "", "true", "false", "a", "a b", "\u00e9", "DEL", "\x00", "\x03", "UNIQ_KEY\x01a", "KEYS\x01"]
)
properties = st.lists(st.builds("{}\x01{}".format, names, values) | values, max_size=5)
texts = st.builds(lambda items, end: "\x02".join(items) + end, properties, st.sampled_from(["", "\x02", "\x02\x02"]))

remembering = single_sends(ADDED)  # all that the tests of this file have shown to it
remembering_new, remembering_batched = single_sends(ADDED_NEW), batched_sends()


def stored(read: PlainProperties, text: str) -> bytes | None:
    """The properties of the record; None: left alone. What else is said of them is true of these."""
    found = read.read(text)
    if found is None:
        return None
    start, unique_key, end, code, keys = found
    raw = start + unique_key + end
    named: Mapping[str, str] = decode_properties(raw)
    assert unique_key.decode() == named.get("UNIQ_KEY", "")
    assert code == tags_code(named.get("TAGS"))
    assert list(keys) == named.get("KEYS", "").split()
    return raw


@given(st.lists(texts, min_size=1, max_size=4))
def test_what_is_stored_is_what_the_handlers_store(texts_: list[str]) -> None:
    for text in texts_ * 2:  # the second time around all of them are known
        raw = stored(remembering, text)
        by_handlers, waits, is_half = sent_properties(text, ADDED)
        assert raw is None or (raw, True, False) == (by_handlers, waits, is_half)
        if stored(single_sends(ADDED), text) is not None:
            assert raw == by_handlers  # what a new one takes, one that knows more takes as well


@given(st.lists(texts, min_size=1, max_size=4))
def test_what_is_stored_of_clients_of_5_is_what_the_handlers_store(texts_: list[str]) -> None:
    for text in texts_ * 2:
        raw = stored(remembering_new, text)
        assert raw is None or (raw, True, False) == sent_properties(text, ADDED_NEW)


@given(st.lists(texts, min_size=1, max_size=4))
def test_in_batches_properties_are_stored_as_they_came(texts_: list[str]) -> None:
    for text in texts_ * 2:
        raw = stored(remembering_batched, text)
        assert raw is None or raw == text.encode()


@given(texts, texts, st.text(max_size=40))
def test_a_key_changes_nothing_but_itself(before: str, after: str, key: str) -> None:
    """The properties around it are shown with a usual key first, and with any key then."""
    for one in (KEYS[0], key):
        text = f"{before}\x02UNIQ_KEY\x01{one}\x02{after}"
        raw = stored(remembering, text)
        assert raw is None or raw == sent_properties(text, ADDED)[0]


@pytest.mark.parametrize("separator", ["", "\x02"])
def test_usual_properties_are_taken_whatever_key_they_have(separator: str) -> None:
    read = single_sends(ADDED)
    for key in ("MODEL", *KEYS, "a", "DEL", "x" * 2_000):  # the first one has something in it that delays have, too
        text = f"TAGS\x01red\x02UNIQ_KEY\x01{key}\x02WAIT\x01true{separator}"
        raw = stored(read, text)
        assert raw == (sent_properties(text, ADDED)[0] if key != "MODEL" else None)
    assert read.read(f"TAGS\x01red\x02UNIQ_KEY\x01\u00e9\x02WAIT\x01true{separator}") is None


def test_what_is_known_of_properties_without_a_key_is_not_taken_for_those_with_one() -> None:
    read = single_sends(ADDED)
    for key in ("", KEYS[0], ""):
        text = f"TAGS\x01red\x02UNIQ_KEY\x01{key}\x02WAIT\x01true"
        assert stored(read, text) == sent_properties(text, ADDED)[0]


def test_the_last_one_of_several_unique_keys_counts() -> None:
    read = single_sends(ADDED)
    for first in KEYS:
        for last in KEYS:
            text = f"UNIQ_KEY\x01{first}\x02x\x01y\x02UNIQ_KEY\x01{last}"
            assert stored(read, text) == sent_properties(text, ADDED)[0]


def test_a_property_whose_name_only_ends_like_a_unique_key_is_none() -> None:
    read = single_sends(ADDED)
    for key in KEYS:
        for other in KEYS:
            text = f"UNIQ_KEY\x01{key}\x02xUNIQ_KEY\x01{other}"
            assert stored(read, text) == sent_properties(text, ADDED)[0]


def test_more_producers_than_are_remembered_change_nothing() -> None:
    read = single_sends(ADDED)
    for number in (*range(5_000), *range(10)):
        text = f"UNIQ_KEY\x01{KEYS[number % 2]}\x02TAGS\x01t{number}"
        assert stored(read, text) == sent_properties(text, ADDED)[0]
    assert len(read._known) < 2_001


def test_what_the_broker_adds_may_look_like_a_unique_key() -> None:
    read = single_sends(added := form_of_4_9("c\x02UNIQ_KEY\x01other"))
    for key in KEYS:
        text = f"UNIQ_KEY\x01{key}\x02TAGS\x01red"
        assert stored(read, text) == sent_properties(text, added)[0]
