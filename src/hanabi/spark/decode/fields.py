"""Numbers out of bytes, at any positions: a column of a table whose rows are records."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]
Positions: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]


def field_at(data: Bytes, positions: Positions, kind: str) -> NDArray[Any]:
    """The number of type *kind* (such as ">i8") that begins at each of *positions*, in this machine's byte order.

    All of them must lie inside.
    """
    stored = np.dtype(kind)
    if not len(positions):
        return np.empty(0, stored.newbyteorder("="))
    # Every byte begins a number in this view; nothing is copied until it is indexed.
    everywhere = np.ndarray((len(data) - stored.itemsize + 1,), stored, data, strides=(1,))
    return everywhere[positions].astype(stored.newbyteorder("="), copy=False)


def field_near(data: Bytes, positions: Positions, kind: str) -> NDArray[Any]:
    """As `field_at`, but a position may be wrong: the answer there is some number that means nothing.

    *data* must hold at least one number.
    """
    return field_at(data, np.clip(positions, 0, len(data) - np.dtype(kind).itemsize), kind)
