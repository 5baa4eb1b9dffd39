"""Numbers out of bytes, at any positions: a column of a table whose rows are records."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]
Positions: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]


def field_at(data: Bytes, positions: Positions, kind: str) -> NDArray[Any]:
    """The number of type *kind* (such as ">i8") that begins at each of *positions*, in this machine's byte order.

    A position from which the number would not fit is moved to where it does: whoever may have such positions knows
    that the answer there means nothing. Unless there are no positions, *data* must hold at least one number.
    """
    stored = np.dtype(kind)
    if not len(positions):
        return np.empty(0, stored.newbyteorder("="))
    # Every byte begins a number in this view; nothing is copied until it is indexed.
    everywhere = np.ndarray((len(data) - stored.itemsize + 1,), stored, data, strides=(1,))
    found = everywhere[np.clip(positions, 0, len(everywhere) - 1)]
    return found.astype(stored.newbyteorder("="), copy=False)
