"""The tables of docs/client.md say what is true: every option is there, with its default."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

import hanabi
import hanabi.errors

TEXT = (Path(__file__).parents[2] / "docs" / "client.md").read_text()
NAMES = {"averagely": hanabi.averagely}  # defaults that are written as names


def documented(kind: str) -> dict[str, Any]:
    """Option and default, of the table after the mark of *kind*."""
    _, _, after = TEXT.partition(f"<!-- options {kind} -->\n")
    rows = re.match(r"(\|.*\n)+", after)
    assert rows, f"docs/client.md has no table of {kind}"
    cells = [line.split("|") for line in rows[0].splitlines()[2:]]
    return {cell[1].strip(" `"): eval(cell[2].strip(" `"), NAMES) for cell in cells}  # noqa: S307 - our own text


@pytest.mark.parametrize(
    "kind", ["ClientConfig", "ProducerConfig", "PushConfig", "LitePullConfig", "PullConfig", "SimpleConfig"]
)
def test_every_option_is_documented_with_its_default(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:9876")  # without any there is no client
    config: type[msgspec.Struct] = getattr(hanabi, kind)
    made = config()
    defaults = {name: getattr(made, name) for name in config.__struct_fields__}
    assert documented(kind) == defaults


def test_every_error_that_is_documented_exists() -> None:
    _, _, section = TEXT.partition("## Errors")
    names = re.findall(r"`([A-Z]\w+(?:Error|Failed|Exist|Permission|Message))`", section.partition("## What")[0])
    assert len(names) > 10
    for name in names:
        assert issubclass(getattr(hanabi.errors, name), hanabi.MQError)
