"""Options by which `tail` and `consume` choose messages: a filter, a start, a number."""

from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from hanabi.cli.shared.times import parse_time
from hanabi.errors import ConfigError

if TYPE_CHECKING:
    from hanabi.client.consumer.subscription import Expression

FIRST: Final = "first"
LAST: Final = "last"

Tags = Annotated[str | None, typer.Option("--tags", metavar="A||B", help="Only messages with one of these tags.")]
Sql = Annotated[
    str | None,
    typer.Option("--sql", metavar="SQL92", help="Only messages whose properties fulfil this: amount > 100."),
]
Count = Annotated[
    int | None, typer.Option("--count", metavar="N", min=1, show_default="without end", help="Stop after so many.")
]
Json = Annotated[bool, typer.Option("--json", help="Write one JSON object a line.")]


def expression_of(tags: str | None, sql: str | None) -> "Expression":
    """Return the filter that the options mean. Raise ConfigError for both."""
    from hanabi.client.consumer.subscription import ALL
    from hanabi.client.consumer.subscription import Sql as SqlFilter

    if tags is not None and sql is not None:
        raise ConfigError("--tags and --sql are two different filters: choose one")
    return SqlFilter(sql) if sql is not None else tags or ALL


def start_of(text: str) -> Literal["first", "last"] | int:
    """Return the start that `--from` means: the first message, the end, or a time in milliseconds."""
    if text in (FIRST, LAST):
        return FIRST if text == FIRST else LAST
    try:
        return parse_time("--from", text)
    except ConfigError as error:
        raise ConfigError(f"{error}, or {FIRST}, or {LAST}") from error
