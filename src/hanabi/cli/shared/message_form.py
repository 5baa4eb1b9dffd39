"""The form in which commands show messages: one line, in full, by a template, or the bodies alone."""

import base64
import re
import string
import sys
from collections.abc import Callable
from typing import Annotated, Final, TypeAlias

import msgspec
import typer

from hanabi.cli.shared.message_line import MessageLine, message_text, short_text
from hanabi.cli.shared.output import printable
from hanabi.cli.shared.times import time_text
from hanabi.errors import ConfigError

Form: TypeAlias = Callable[[MessageLine], str | bytes]

Full = Annotated[bool, typer.Option("--full", help="All of each message: its properties, and its body uncut.")]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="TEMPLATE",
        help="A line by this template: '{time} {key} {body}'. Names are those of --json, and time, key and"
        " property:NAME; \\t and \\n are a tab and a newline.",
    ),
]
Raw = Annotated[bool, typer.Option("--raw", help="The bodies alone, byte by byte, with a newline after each.")]

_ESCAPES: Final = {r"\n": "\n", r"\t": "\t", r"\r": "\r", r"\0": "\0", r"\\": "\\"}
_ESCAPE: Final = re.compile(r"\\[ntr0\\]")
_PROPERTY: Final = "property"
_NAMES: Final = {field.encode_name: field.name for field in msgspec.structs.fields(MessageLine)}
_OWN: Final[dict[str, Callable[[MessageLine], str]]] = {
    "time": lambda line: time_text(line.store_timestamp),
    "key": lambda line: " ".join(line.keys),
}


def message_form(*, full: bool = False, template: str | None = None, raw: bool = False, json: bool = False) -> Form:
    """Return the function that makes the output of one message. Raise ConfigError for two forms at once."""
    chosen = {"--full": full, "--format": template is not None, "--raw": raw, "--json": json}
    given = [option for option, is_given in chosen.items() if is_given]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} are different forms of output: choose one")
    if raw:
        return raw_body
    if template is not None:
        return by_template(template, for_terminal=sys.stdout.isatty())
    return message_text if full else short_text


def raw_body(line: MessageLine) -> bytes:
    """Return the body as it was sent, and a newline. Pure."""
    return (line.body.encode() if line.encoding == "utf-8" else base64.b64decode(line.body)) + b"\n"


def by_template(template: str, *, for_terminal: bool = False) -> Form:
    """Return a function that fills *template* with the values of a message. Raise ConfigError for an unknown name.

    Values for a terminal lose what it would obey.
    """
    parts = [(_unescaped(text), _value(name, spec or "")) for text, name, spec in _parsed(template)]
    safe = printable if for_terminal else str

    def fill(line: MessageLine) -> str:
        return "".join(text if value is None else text + safe(value(line)) for text, value in parts) + "\n"

    return fill


def _parsed(template: str) -> list[tuple[str, str | None, str | None]]:
    try:
        found = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ConfigError(f"--format {template}: {error}; a brace itself is written twice") from error
    for _, name, _, conversion in found:
        if conversion is not None:
            raise ConfigError(f"--format {template}: write {{{name}}} without !{conversion}")
    return [(text, name, spec) for text, name, spec, _ in found]


def _value(name: str | None, spec: str) -> Callable[[MessageLine], str] | None:
    """Return how to get the value of *name*; None for text that ends the template."""
    if name is None:
        return None
    if name == _PROPERTY and spec:
        return lambda line: line.properties.get(spec, "")
    if spec:
        raise ConfigError(
            f"--format: {{{name}:{spec}}} has a form of its own, which only {{{_PROPERTY}:NAME}} may have"
        )
    if name in _OWN:
        return _OWN[name]
    if name not in _NAMES:
        known = ", ".join(sorted((*_OWN, *_NAMES, f"{_PROPERTY}:NAME")))
        raise ConfigError(f"--format: messages have no {{{name}}}; there are {known}")
    field = _NAMES[name]
    return lambda line: _text(getattr(line, field))


def _text(value: object) -> str:
    """Return a value as text: nothing for None, JSON for a table. Pure."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPES[found[0]], text)
