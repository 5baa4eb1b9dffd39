"""The help of every command on a terminal of 80 columns."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from hanabi.cli.main import command_tree
from tests.cli.admin_commands import run

COLUMNS = 80
WIDE = 1000
BOX = re.compile(r"[\s╭╮╰╯│─]+")


def paths(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of *command* and of every command below it."""
    yield path
    for name, each in getattr(command, "commands", {}).items():
        yield from paths(each, (*path, name))


COMMANDS = list(paths(command_tree("hanabi")))


@cache
def help_text(path: tuple[str, ...], columns: int) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        result = run(*path, "--help")
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def words(text: str) -> set[str]:
    return set(BOX.split(text))


def prose(text: str) -> list[str]:
    """Return the paragraphs between the usage and the first table."""
    found = text.split("╭")[0].split("\n")
    return [line.strip() for line in found if line.strip() and not line.strip().startswith("Usage:")]


def test_there_are_commands_to_look_at() -> None:
    assert {("topic", "list"), ("serve", "broker"), ("doctor",)} <= set(COMMANDS)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_at_80_columns_breaks_no_word_and_cuts_nothing(path: tuple[str, ...]) -> None:
    text = help_text(path, COLUMNS)
    assert max(map(len, text.splitlines())) <= COLUMNS
    assert words(text) == words(help_text(path, WIDE))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_fills_its_lines(path: tuple[str, ...]) -> None:
    for paragraph in prose(help_text(path, WIDE)):
        assert paragraph.endswith((".", ":", "?")), paragraph  # and not where a line of the source ends
