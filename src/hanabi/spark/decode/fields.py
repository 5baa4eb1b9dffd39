"""Vectorised reads of numbers at arbitrary byte positions: a column of a table whose rows are records."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]
Positions: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Stretches: TypeAlias = NDArray[np.void]  # byte strings of equal length


def field_at(data: Bytes, positions: Positions, kind: str) -> NDArray[Any]:
    """Return the number of type *kind* (such as ">i8") at each of *positions*, in this machine's byte order.

    All positions must lie inside *data*.
    """
    stored = np.dtype(kind)
    if not len(positions):
        return np.empty(0, stored.newbyteorder("="))
    # Every byte begins a number in this view; nothing is copied until it is indexed.
    everywhere = np.ndarray((len(data) - stored.itemsize + 1,), stored, data, strides=(1,))
    return everywhere[positions].astype(stored.newbyteorder("="), copy=False)


def field_near(data: Bytes, positions: Positions, kind: str) -> NDArray[Any]:
    """Return the numbers at *positions* as `field_at`, but accept invalid positions: the value there is arbitrary.

    *data* must hold at least one number.
    """
    return field_at(data, np.clip(positions, 0, len(data) - np.dtype(kind).itemsize), kind)


def stretches_near(data: Bytes, positions: Positions, size: int) -> Stretches:
    """Return the *size* bytes at each of *positions*, in one copy.

    As with `field_near`, positions may be invalid, and *data* must hold at least one stretch.
    """
    everywhere = np.ndarray((len(data) - size + 1,), f"V{size}", data, strides=(1,))
    return everywhere[np.clip(positions, 0, len(data) - size)]


def field_of(stretches: Stretches, at: int, kind: str) -> NDArray[Any]:
    """Return the number of type *kind* at *at* bytes into each of *stretches*, in the format of `field_at`."""
    stored = np.dtype(kind)
    if not len(stretches):
        return np.empty(0, stored.newbyteorder("="))
    return np.ndarray((len(stretches),), stored, stretches, at, stretches.strides).astype(stored.newbyteorder("="))
