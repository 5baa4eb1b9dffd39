"""A page of a long list: filter, sort and cut on the server. Pure."""

from collections.abc import Sequence
from typing import Final

import msgspec

ROWS: Final = 50


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a list, and where it lies in the whole."""

    names: list[str]
    page: int
    pages: int
    found: int
    total: int


def sliced(names: Sequence[str], search: str, page: int, rows: int = ROWS) -> Slice:
    """Return the names of *page* that contain *search*, in any case. A page past the end is the last one."""
    wanted = search.lower()
    found = [name for name in names if wanted in name.lower()] if wanted else list(names)
    pages = max((len(found) + rows - 1) // rows, 1)
    number = min(max(page, 1), pages)
    cut = found[(number - 1) * rows : number * rows]
    return Slice(names=cut, page=number, pages=pages, found=len(found), total=len(names))
