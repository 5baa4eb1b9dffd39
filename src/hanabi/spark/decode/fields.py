"""Numbers out of bytes, at any positions: a column of a table whose rows are records."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]
Positions: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Stretches: TypeAlias = NDArray[np.void]  # bytes, the same number of them in each element


def field_at(data: Bytes, positions: Positions, kind: str) -> NDArray[Any]:
    """Return the number of type *kind* (such as ">i8") that begins at each of *positions*, in this machine's byte
    order.

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


def stretches_near(data: Bytes, positions: Positions, size: int) -> Stretches:
    """Return the *size* bytes at each of *positions*, copied together. As with `field_near`, a position may be
    wrong, and *data* must hold at least one stretch."""
    everywhere = np.ndarray((len(data) - size + 1,), f"V{size}", data, strides=(1,))
    return everywhere[np.clip(positions, 0, len(data) - size)]


def field_of(stretches: Stretches, at: int, kind: str) -> NDArray[Any]:
    """Return the number of type *kind* that begins *at* bytes into each of *stretches*, as `field_at` gives it."""
    stored = np.dtype(kind)
    if not len(stretches):
        return np.empty(0, stored.newbyteorder("="))
    return np.ndarray((len(stretches),), stored, stretches, at, stretches.strides).astype(stored.newbyteorder("="))
