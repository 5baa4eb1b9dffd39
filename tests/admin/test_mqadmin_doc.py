"""docs/mqadmin.md names commands that exist."""

import re
from pathlib import Path

import pytest
import typer

from hanabi.cli.main import app

TEXT = (Path(__file__).parents[2] / "docs" / "mqadmin.md").read_text()
COMMANDS = sorted(set(re.findall(r"`hanabi ([a-z]+(?: [a-z-]+)?)", TEXT)))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_is_named_exists(command: str) -> None:
    found = typer.main.get_command(app)
    for word in command.split():
        commands = getattr(found, "commands", {})
        assert word in commands, f"hanabi {command}"
        found = commands[word]


def test_every_noun_is_in_the_table() -> None:
    named = {command.split()[0] for command in COMMANDS}
    assert {"topic", "group", "offset", "message", "broker", "cluster", "namesrv", "dlq"} <= named
