"""Tables and findings on a terminal of 80 columns."""

import os
import pty
import subprocess

import pytest

import hanabi
from hanabi.cli.shared.render import pairs, table
from tests.cli.admin_commands import send
from tests.cli.commands import DEADLINE_SECONDS, HANABI, environment
from tests.cli.commands import hanabi as hanabi_process
from tests.serving import Serving

COLUMNS = 80
UNITS = {"b", "kib", "mib", "gib", "us", "ms", "s"}  # of figures that grow between two calls
LONG = "OrdersOfTheWarehouseInTheNorthThatAreLate"


def on_a_terminal(*arguments: str) -> str:
    """Return the output of a command on a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([*HANABI, *arguments], stdout=theirs, env=environment(COLUMNS=str(COLUMNS))) as process:
        os.close(theirs)
        found = b""
        try:
            while part := os.read(ours, 65536):
                found += part
        except OSError:  # how a terminal ends in Linux
            pass
        process.wait(DEADLINE_SECONDS)
    os.close(ours)
    return found.decode().replace("\r\n", "\n")


def words(text: str) -> set[str]:
    return set(text.replace(",", " ").lower().split())


def test_a_table_that_fits_is_one_line_a_row() -> None:
    assert table(("name", "count"), [("a,b", 1)], width=COLUMNS) == "NAME  COUNT\na,b       1\n"


def test_cells_are_wrapped_between_words_and_numbers_stay_whole() -> None:
    rows = [(LONG, "2026-11-16 15:00:00.123", 123_456_789_012, 98_765_432_109, "broker-a,broker-b,broker-c")]
    text = table(("topic", "last stored", "first", "next", "brokers"), rows, width=COLUMNS)
    assert max(map(len, text.splitlines())) <= COLUMNS
    assert words(text) == words(f"topic last stored first next brokers {' '.join(map(str, rows[0]))}")


def test_a_table_that_does_not_fit_is_shown_one_row_after_the_other() -> None:
    text = table(("topic", "group", "lag"), [(LONG, LONG, 1), (LONG, LONG, 2)], width=COLUMNS)
    assert text == f"topic  {LONG}\ngroup  {LONG}\nlag    1\n\ntopic  {LONG}\ngroup  {LONG}\nlag    2\n"


@pytest.mark.parametrize(
    "command",
    [
        ("topic", "list"),
        ("topic", "status", LONG),
        ("topic", "route", LONG),
        ("group", "list"),
        ("group", "progress", f"{LONG}_group"),
        ("cluster", "list"),
        ("stats", "--topic", LONG),
        ("offset", "show", f"{LONG}_group", LONG),
        ("broker", "stats", "--topic", LONG),
        ("message", "print", LONG),
        ("broker", "status"),
        ("broker", "config"),
        ("namesrv", "config"),
        ("group", "members", f"{LONG}_group"),
    ],
    ids=" ".join,
)
def test_commands_on_a_terminal_break_no_word(cluster: Serving, command: tuple[str, ...]) -> None:
    send(cluster, hanabi.Message(LONG, b"one"))
    consumer = hanabi.LitePullConsumer(f"{LONG}_group", namesrv=cluster.namesrv, consume_from="first")
    consumer.subscribe(LONG)
    with consumer:
        assert consumer.poll(15)
    shown = on_a_terminal(*command, "-n", cluster.namesrv)
    assert not [line for line in shown.splitlines() if len(line) > COLUMNS and len(line.split()) > 1]
    piped = hanabi_process(*command, "-n", cluster.namesrv).stdout
    unchanging = {word for word in words(piped) if not any(map(str.isdigit, word))} - UNITS
    assert unchanging <= words(shown)


def test_findings_and_the_summary_of_doctor_break_no_word(cluster: Serving) -> None:
    # The cluster has what other tests left there: a finding of this test's own makes the summary its full length.
    command = ("doctor", "--interval", "0", "-n", f"{cluster.namesrv};127.0.0.1:1")
    shown = on_a_terminal(*command)
    assert max(map(len, shown.splitlines())) <= COLUMNS
    assert "does not answer" in shown


def test_names_and_values_are_wrapped_under_the_beginning_of_the_value() -> None:
    text = pairs([("topic", LONG), ("brokers", ",".join(f"broker-{letter}" for letter in "abcdefghij"))], width=COLUMNS)
    assert text.splitlines() == [
        f"topic    {LONG}",
        "brokers  broker-a,broker-b,broker-c,broker-d,broker-e,broker-f,broker-g,",
        "         broker-h,broker-i,broker-j",
    ]


def test_a_value_that_does_not_fit_beside_its_name_stands_below_it_and_a_longer_word_stays_whole() -> None:
    path, line = "/store" * 12, "/store" * 20
    assert pairs([("consumeQueuePath", path), ("x", f"at {line}")], width=COLUMNS).splitlines() == [
        "consumeQueuePath",
        f"  {path}",
        "x",
        "  at",
        f"  {line}",
    ]
