"""Every administration command exists, is documented with its JSON, and is tried with our brokers and with Apache's."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer

from hanabi.cli.main import app
from tests.cli.shapes import DOCUMENT, SHAPES, check, rewritten, shape_of

TESTS = Path(__file__).parents[1]
NOUNS = ("topic", "group", "offset", "message", "broker", "cluster", "namesrv", "controller", "dlq", "bench")
ALONE = ("stats", "doctor")
ASKED_FOR = {
    "topic": "list create update delete route status perm",
    "group": "list create delete progress members subscriptions mode",
    "offset": "reset skip clone show",
    "message": "get query send print trace recall consume-directly",
    "broker": "status config stats replication clean",
    "cluster": "list",
    "namesrv": "config kv write-perm",
    "controller": "status elect clean",
    "dlq": "list show export resend",
    "bench": "produce consume latency store",
}
NO_CLUSTER = {"bench store"}  # Apache's have no part in it


PLANS = {"cluster plan", "cluster up"}  # they ask no cluster: they make one


def commands() -> set[str]:
    root: Any = typer.main.get_command(app)
    return {f"{noun} {verb}" for noun in NOUNS for verb in root.commands[noun].commands} - PLANS | set(ALONE)


def test_every_command_that_is_asked_for_is_there() -> None:
    assert commands() == {f"{noun} {verb}" for noun, verbs in ASKED_FOR.items() for verb in verbs.split()} | set(ALONE)


def test_every_command_has_a_shape_and_the_document_says_it() -> None:
    assert commands() <= set(SHAPES)
    text = DOCUMENT.read_text()
    assert text == rewritten(text), "run: python -m tests.cli.shapes"


def test_every_command_with_json_is_in_the_documents_table() -> None:
    text = DOCUMENT.read_text()
    for noun, verbs in ASKED_FOR.items():
        assert f"| `{noun}` | {' '.join(f'`{verb}`' for verb in _as_written(verbs, noun, text))} |" in text


def _as_written(verbs: str, noun: str, text: str) -> list[str]:
    (row,) = [line for line in text.splitlines() if line.startswith(f"| `{noun}` | `")]
    written = row.split("|")[2].replace("`", "").split()
    assert set(written) == set(verbs.split())
    return written


def called(path: Path) -> Iterator[str]:
    """Yield the commands that a file of tests runs, by the words that it gives to `answer` and the like."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            words = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            yield from (" ".join(words[:2]), *words[:1])


@pytest.mark.parametrize("place", ["cli/**/test_*.py", "interop/test_admin*.py"], ids=["ours", "apache"])
def test_every_command_is_tried(place: str) -> None:
    tried = {command for path in TESTS.glob(place) for command in called(path)}
    asked = commands() - NO_CLUSTER if place.startswith("interop") else commands()
    assert not asked - tried, f"{place}: nobody tries {sorted(asked - tried)}"


def test_a_shape_is_exact() -> None:
    shape = shape_of(("topic", "delete", "T", "--yes"))
    check(shape, '{"topic":"T","brokers":["a"]}')
    for wrong in ('{"topic":"T"}', '{"topic":"T","brokers":[1]}', '{"topic":"T","brokers":[],"more":1}'):
        with pytest.raises((AssertionError, msgspec.ValidationError)):
            check(shape, wrong)
    assert shape_of(("group", "members", "g", "--client", "c")) is SHAPES["group members --client"]
