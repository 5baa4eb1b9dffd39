"""Tests of validation: an invalid message is refused before it is sent, and the error names the limit."""

import pytest

from hanabi.client.validation import check_group, check_message, check_properties, check_topic
from hanabi.errors import ConfigError, InvalidMessage
from hanabi.message import Message


@pytest.mark.parametrize("name", ["Orders", "a-b_c|d%e9", "%RETRY%billing", "x" * 127, "BenchmarkTest"])
def test_good_topic_names_pass(name: str) -> None:
    check_topic(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "must have a name"),
        ("  ", "must have a name"),
        ("x" * 128, "128 characters, limit 127"),
        ("My Topic", "only letters, digits"),
        ("Bestellungen.neu", "only letters, digits"),
        ("Größe", "only letters, digits"),
        ("SCHEDULE_TOPIC_XXXX", "clients cannot send to it"),
        ("RMQ_SYS_TRANS_HALF_TOPIC", "clients cannot send to it"),
    ],
)
def test_a_bad_topic_name_says_why(name: str, said: str) -> None:
    with pytest.raises(InvalidMessage, match=said):
        check_topic(name)


def test_a_group_may_be_longer_than_a_topic_but_not_endless() -> None:
    check_group("g" * 255)
    with pytest.raises(ConfigError, match="256 characters, limit 255"):
        check_group("g" * 256)
    with pytest.raises(ConfigError, match="must have a name"):
        check_group("")
    with pytest.raises(ConfigError, match="only letters"):
        check_group("my group")


def test_a_body_must_be_bytes_and_neither_empty_nor_over_the_limit() -> None:
    check_message(Message("T", b"x" * 100), 100)
    with pytest.raises(InvalidMessage, match="101 bytes, limit 100"):
        check_message(Message("T", b"x" * 101), 100)
    with pytest.raises(InvalidMessage, match="at least 1 byte"):
        check_message(Message("T", b""))
    with pytest.raises(InvalidMessage, match=r"is str, must be bytes: .*encode\(\)"):
        check_message(Message("T", "text"))  # type: ignore[arg-type]


def test_a_delay_is_a_level_or_a_time_but_not_both() -> None:
    check_message(Message("T", b"x", delay_level=3))
    check_message(Message("T", b"x", deliver_time_ms=1_700_000_000_000))
    with pytest.raises(InvalidMessage, match="exclude each other"):
        check_message(Message("T", b"x", delay_level=3, deliver_time_ms=1))
    with pytest.raises(InvalidMessage, match="negative"):
        check_message(Message("T", b"x", delay_level=-1))


@pytest.mark.parametrize("wrong", [30, 30_000, 1_700_000_000])
def test_a_deliver_time_in_seconds_or_a_delay_is_refused(wrong: int) -> None:
    with pytest.raises(InvalidMessage, match=f"deliver_time_ms={wrong} is before 2001"):
        check_message(Message("T", b"x", deliver_time_ms=wrong))


def test_properties_are_measured_in_bytes() -> None:
    check_properties("T", "a" * 32_767)
    check_properties("T", "ü" * 16_383)
    with pytest.raises(InvalidMessage, match="32768 bytes, limit 32767"):
        check_properties("T", "ü" * 16_384)


def test_half_a_character_cannot_travel() -> None:
    check_properties("T", "TAGS\x01\U0001f386\x02")
    with pytest.raises(InvalidMessage, match=r"topic T: '\\ud83c' in the properties.*unpaired surrogate"):
        check_properties("T", "TAGS\x01\ud83c\x02")
