"""Tables of an outcome as dictionaries."""

from collections.abc import Mapping
from typing import Any

from hanabi.spark.pipelines.contract import Cell, Outcome


def rows_of(outcome: Outcome, title: str) -> list[dict[str, Cell]]:
    """Return the rows of the table whose title begins so."""
    (table,) = (each for each in outcome.tables if each.title.startswith(title))
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def only(row: Mapping[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)
