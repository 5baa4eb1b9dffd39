"""Log lines are lines, whatever peers have put into them, and nobody can fill the disk with them."""

import io
import json
import logging
import sys

import pytest

from hanabi.cli.logs.log_output import (
    LINES_A_MINUTE_MAX,
    MESSAGE_CHARACTERS_MAX,
    TRACEBACK_CHARACTERS_MAX,
    JsonFormatter,
    LimitedHandler,
    TextFormatter,
    on_one_line,
)
from hanabi.testing.clock import ManualClock

FORMATTERS = [TextFormatter(), JsonFormatter()]


def record_of(message: str, *arguments: object, error: Exception | None = None) -> logging.LogRecord:
    exc_info = None
    if error is not None:
        try:
            raise error
        except type(error):
            exc_info = sys.exc_info()
    return logging.LogRecord("hanabi.test", logging.WARNING, __file__, 1, message, arguments, exc_info)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain ü 中 😀", "plain ü 中 😀"),
        ("x\n2026-01-01 ERROR forged", "x\\n2026-01-01 ERROR forged"),
        ("\x1b[31mred\x1b[2J\r\0", "\\x1b[31mred\\x1b[2J\\r\\x00"),
        ("\x7f\x9b\u2028\u202e", "\\x7f\\x9b\\u2028\\u202e"),
        ("/data/\udcff", "/data/\\udcff"),
    ],
)
def test_what_is_not_printable_is_spelled_out(text: str, line: str) -> None:
    assert on_one_line(text) == line
    for formatter in FORMATTERS:
        formatted = formatter.format(record_of("topic %s is deleted", text))
        assert len(formatted.splitlines()) == 1
        assert formatted.encode()
    assert (
        TextFormatter().format(record_of("topic %s is deleted", text)).endswith(f"hanabi.test: topic {line} is deleted")
    )
    assert json.loads(JsonFormatter().format(record_of("%s", text)))["message"] == line


@pytest.mark.parametrize("formatter", FORMATTERS)
def test_a_line_is_cut_where_it_gets_long(formatter: logging.Formatter) -> None:
    formatted = formatter.format(record_of("topic %s", "x" * 1_000_000))
    assert len(formatted) < MESSAGE_CHARACTERS_MAX + 200
    assert "... (1000006 characters)" in formatted


def test_a_traceback_is_indented_so_that_nothing_in_it_passes_for_a_line() -> None:
    text = TextFormatter().format(record_of("failed", error=ValueError("x\n2026-01-01 ERROR forged\x1b")))
    first, *rest = text.split("\n")
    assert first.endswith("WARNING hanabi.test: failed")
    assert rest[0] == "    Traceback (most recent call last):"
    assert rest[-1] == "    2026-01-01 ERROR forged\\x1b"
    assert all(line.startswith("    ") for line in rest)


@pytest.mark.parametrize("formatter", FORMATTERS)
def test_a_traceback_is_bounded(formatter: logging.Formatter) -> None:
    assert (
        len(formatter.format(record_of("failed", error=ValueError("x" * 1_000_000)))) < TRACEBACK_CHARACTERS_MAX + 500
    )


def test_json_has_the_traceback_as_one_text() -> None:
    line = JsonFormatter().format(record_of("failed", error=ValueError("half \udcff of\nit")))
    error = json.loads(line)["error"]
    assert error.startswith("Traceback (most recent call last):\n")
    assert error.endswith("ValueError: half \\udcff of\nit")


def test_a_kind_of_line_without_end_is_left_out_for_the_rest_of_its_minute() -> None:
    stream, clock = io.StringIO(), ManualClock(0)
    handler = LimitedHandler(stream, now=clock.seconds)
    for number in range(LINES_A_MINUTE_MAX + 7):
        handler.handle(record_of("broker %s has joined", number))
    handler.handle(record_of("something else"))
    lines = stream.getvalue().splitlines()
    assert lines[-2:] == [f"broker {LINES_A_MINUTE_MAX - 1} has joined", "something else"]
    assert len(lines) == LINES_A_MINUTE_MAX + 1
    clock.ms = 61_000
    handler.handle(record_of("broker %s has joined", "late"))
    assert stream.getvalue().splitlines()[-2:] == [
        "7 more lines of this kind were left out: broker %s has joined",
        "broker late has joined",
    ]
