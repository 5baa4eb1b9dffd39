"""The forms of messages: templates, bodies alone, and what is refused."""

import pytest

from hanabi.cli.shared.message_form import by_template, message_form, raw_body
from hanabi.cli.shared.message_line import MessageLine, message_line
from hanabi.errors import ConfigError
from tests.client.consumer.stored import stored


def line(body: bytes = b"paid", properties: dict[str, str] | None = None) -> MessageLine:
    """Return message 7 of queue 3 as commands show it."""
    return message_line(
        stored(
            7,
            topic="Orders",
            queue_id=3,
            body=body,
            tags="new",
            keys=("43", "44"),
            properties=properties or {},
            store_timestamp_ms=1_000_000_000_000,
        )
    )


def test_a_template_is_filled_with_the_names_of_json() -> None:
    message = line(properties={"region": "eu"})
    fill = by_template(r"{topic}/{queueId}@{queueOffset}\t{key}\t{tags}\t{property:region}\t{property:none}|{body}")
    assert fill(message) == "Orders/3@7\t43 44\tnew\teu\t|paid\n"


def test_times_are_text_and_numbers_and_tables_are_json() -> None:
    message = line(properties={"a": "1"})
    assert by_template("{time} {storeTimestamp} {properties} {{}}")(message) == (
        '2001-09-09T01:46:40.000Z 1000000000000 {"a":"1"} {}\n'
    )


def test_escapes_are_only_in_the_template_and_never_in_a_value() -> None:
    assert by_template(r"a\\n{body}")(line(rb"b\n")) == "a\\n" + "b\\n" + "\n"


def test_a_value_cannot_command_a_terminal() -> None:
    message = line(b"\x1b[2Jclear")
    assert by_template("{body}", for_terminal=True)(message) == "\\x1b[2Jclear\n"
    assert by_template("{body}")(message) == "\x1b[2Jclear\n"


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ("{colour}", "--format: messages have no {colour}; there are "),
        ("{body", "--format {body: "),
        ("{body!r}", "write {body} without !r"),
        ("{queueId:04}", "has a form of its own"),
        ("{}", "messages have no {}"),
        ("{body.__class__}", "messages have no {body.__class__}"),
        ("{properties[a]}", "messages have no {properties[a]}"),
    ],
)
def test_a_wrong_template_is_refused_with_a_reason(template: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        by_template(template)
    assert sentence in str(refused.value)


def test_a_raw_body_is_byte_for_byte() -> None:
    assert raw_body(line(b"\xff\x00\n")) == b"\xff\x00\n\n"
    assert raw_body(line("grüße".encode())) == "grüße\n".encode()


def test_two_forms_at_once_are_refused() -> None:
    with pytest.raises(ConfigError, match="--full and --raw are different forms of output: choose one"):
        message_form(full=True, raw=True)
