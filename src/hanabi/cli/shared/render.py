"""Tables as text: as wide as the terminal, or as the content where stdout is no terminal."""

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from io import StringIO
from typing import Final

from hanabi.cli.shared.output import printable
from hanabi.cli.shared.times import time_text

UNBOUNDED_WIDTH: Final = 10_000  # for pipes: `grep` wants a row in one line
NUMBERS: Final = (int, float)
GAP: Final = 2  # between columns
_BREAK_AFTER: Final = re.compile(r"(?<=[,;])(?=\S)|(?<=\s)(?=\S)")

Cell = str | int | float | bool | None


def table(
    columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, empty: str = "none", width: int | None = None
) -> str:
    """*rows* under *columns*, at most *width* wide (default: as the terminal). Numbers stand on the right. Cells are
    wrapped between words; a table that does not fit even so is shown one row after the other. Nothing is cut."""
    found = [list(row) for row in rows]
    if not found:
        return f"{empty}\n"
    room = _width() if width is None else width
    texts = [[cell_text(cell) for cell in row] for row in found]
    if _needed(columns, texts, len) > room:
        texts = [[text.replace(",", ", ") for text in row] for row in texts]  # lists of names wrap there
        if _needed(columns, texts, _longest_word) > room:
            return "\n".join(pairs(zip(columns, row, strict=True), width=room) for row in texts)
    return _drawn(columns, found, texts, room)


def _needed(columns: Sequence[str], texts: list[list[str]], size: Callable[[str], int]) -> int:
    """Return the width of a table whose cells take their *size*. Pure."""
    sizes = [max(map(size, (name, *cells))) for name, *cells in zip(columns, *texts, strict=True)]
    return sum(sizes) + GAP * (len(sizes) - 1)


def _longest_word(text: str) -> int:
    return max(map(len, text.split()), default=0)


def _drawn(columns: Sequence[str], found: list[list[Cell]], texts: list[list[str]], width: int) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for number, name in enumerate(columns):
        is_number = all(isinstance(row[number], NUMBERS) for row in found if row[number] is not None)
        drawn.add_column(
            Text(name.upper()),
            justify="right" if is_number else "left",
            overflow="fold",
            min_width=max(map(_longest_word, (name, *(row[number] for row in texts)))),
        )
    for row in texts:
        drawn.add_row(*map(Text, row))
    written = StringIO()
    Console(file=written, width=width, color_system=None, legacy_windows=False).print(drawn)
    return "".join(f"{line.rstrip()}\n" for line in written.getvalue().splitlines())


def pairs(values: Iterable[tuple[str, Cell]], *, width: int | None = None) -> str:
    """Format names and values, one a line, at most *width* wide (default: as the terminal). A value is wrapped between
    words and after commas, under its beginning. A word that is longer than a line stays whole: it can be copied."""
    found = [(printable(name), cell_text(value)) for name, value in values]
    indent = max((len(name) for name, _ in found), default=0) + GAP
    room = _width() if width is None else width
    return "".join(_pair(name, value, indent, room) for name, value in found)


def _pair(name: str, value: str, indent: int, width: int) -> str:
    """Return one name with its value; a value with a word too long for the place beside the name stands below it.
    Pure."""
    beside = [piece.rstrip() for piece in _pieces(value)]
    fits = max(map(len, beside)) <= width - indent
    if fits:
        first, *rest = _wrapped(value, width - indent)
        return "".join(f"{line}\n" for line in (f"{name:<{indent}}{first}", *(" " * indent + line for line in rest)))
    return "".join(f"{line}\n" for line in (name, *(f"  {line}" for line in _wrapped(value, width - GAP))))


def _wrapped(text: str, width: int) -> list[str]:
    """Return the lines of *text*, each as full as *width* allows. Pure."""
    lines = [""]
    for piece in _pieces(text):
        if lines[-1] and len(lines[-1] + piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def _pieces(text: str) -> list[str]:
    """Return the parts of *text* that a line may end after: words with the space behind them, and parts of lists.
    Pure."""
    return _BREAK_AFTER.split(text)


def cell_text(cell: Cell) -> str:
    if cell is None or cell == "":
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:.2f}"
    return printable(str(cell))


def moment(time_ms: int) -> str:
    """Return a time for people; servers say 0, or less, for never."""
    return time_text(time_ms) if time_ms > 0 else "-"


def perm_text(perm: int) -> str:
    """Return a permission as mqadmin writes it: RW-."""
    return f"{'R' if perm & 4 else '-'}{'W' if perm & 2 else '-'}{'X' if perm & 1 else '-'}"


def _width() -> int:
    if not sys.stdout.isatty():
        return UNBOUNDED_WIDTH
    import shutil

    return shutil.get_terminal_size().columns
