"""Tables for people: as wide as their terminal, or as the content where nobody's terminal is written to."""

import sys
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Final

from hanabi.cli.output import printable
from hanabi.cli.times import time_text

UNBOUNDED_WIDTH: Final = 10_000  # for pipes: `grep` wants a row in one line
NUMBERS: Final = (int, float)

Cell = str | int | float | bool | None


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, empty: str = "none") -> str:
    """*rows* under *columns*. Numbers stand on the right; what is too wide is folded, never cut."""
    found = [list(row) for row in rows]
    if not found:
        return f"{empty}\n"
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, name in enumerate(columns):
        is_number = all(isinstance(row[number], NUMBERS) for row in found if row[number] is not None)
        drawn.add_column(Text(name.upper()), justify="right" if is_number else "left", overflow="fold")
    for row in found:
        drawn.add_row(*(Text(cell_text(cell)) for cell in row))
    written = StringIO()
    Console(file=written, width=_width(), color_system=None, legacy_windows=False).print(drawn)
    return "".join(f"{line.rstrip()}\n" for line in written.getvalue().splitlines())


def pairs(values: Iterable[tuple[str, Cell]]) -> str:
    """Names and values, one a line."""
    found = list(values)
    width = max((len(name) for name, _ in found), default=0)
    return "".join(f"{printable(name):<{width}}  {cell_text(value)}\n" for name, value in found)


def cell_text(cell: Cell) -> str:
    if cell is None or cell == "":
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:.2f}"
    return printable(str(cell))


def moment(time_ms: int) -> str:
    """A time for people; servers say 0, or less, for never."""
    return time_text(time_ms) if time_ms > 0 else "-"


def perm_text(perm: int) -> str:
    """As mqadmin writes it: RW-."""
    return f"{'R' if perm & 4 else '-'}{'W' if perm & 2 else '-'}{'X' if perm & 1 else '-'}"


def _width() -> int:
    if not sys.stdout.isatty():
        return UNBOUNDED_WIDTH
    import shutil

    return shutil.get_terminal_size().columns
