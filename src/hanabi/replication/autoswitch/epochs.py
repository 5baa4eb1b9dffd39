"""Epochs of a log: each master begins one where it takes over. Pure, but for `EpochFile`.

    epochFileCheckpoint     number of lines, CRC32 of the lines, then one line an epoch: "number-start"

Two logs that have the same epoch with the same start agree up to the nearer of its two ends. Agrees with EpochFileCache
(5.3.3), except that an epoch without a byte is replaced by the next one, where Apache refuses that.
"""

import zlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from hanabi.durable_table import DurableTable
from hanabi.errors import StoreDamaged

FILE_NAME: Final = "epochFileCheckpoint"


class Epoch(NamedTuple):
    """One master's reign: its number, and the offset of its first byte."""

    number: int
    start: int


Epochs = tuple[Epoch, ...]


def appended(epochs: Epochs, epoch: Epoch) -> Epochs:
    """Return the epochs with *epoch* at their end. Unchanged if it is known or older."""
    if epochs and epoch.number <= epochs[-1].number:
        return epochs
    return (*(each for each in epochs if each.start < epoch.start), epoch)


def cut(epochs: Epochs, offset: int) -> Epochs:
    """Return the epochs of a log that is cut at *offset*: those that have begun before it."""
    return tuple(epoch for epoch in epochs if epoch.start < offset)


def dropped_before(epochs: Epochs, offset: int) -> Epochs:
    """Return the epochs of a log whose first byte is *offset*: those that end behind it."""
    return tuple(epoch for at, epoch in enumerate(epochs) if at + 1 == len(epochs) or epochs[at + 1].start > offset)


def ends(epochs: Sequence[Epoch], log_end: int) -> dict[Epoch, int]:
    """Return the end of each epoch of a log."""
    starts = [*(epoch.start for epoch in epochs[1:]), log_end]
    return dict(zip(epochs, starts, strict=True)) if epochs else {}


def common_end(own: Sequence[Epoch], own_end: int, masters: Sequence[Epoch], masters_end: int) -> int | None:
    """Return the offset up to which two logs agree; None if they share no epoch."""
    theirs = ends(masters, masters_end)
    for epoch, end in reversed(ends(own, own_end).items()):
        if epoch in theirs:
            return min(end, theirs[epoch])
    return None


def is_outdated(masters: Sequence[Epoch], own: Epochs, own_end: int) -> bool:
    """Return whether this log has bytes of an epoch that is newer than all of the master's: that one was deposed, and
    does not know it yet."""
    newest = max((epoch.number for epoch in cut(own, own_end)), default=-1)
    return bool(masters) and masters[-1].number < newest


def epoch_at(epochs: Sequence[Epoch], offset: int) -> tuple[Epoch, int | None]:
    """Return the epoch of the byte at *offset* and where it ends; None: at the end of the log.

    The first epoch also counts for older bytes: they were written before controller mode.
    """
    following: int | None = None
    for epoch in reversed(epochs):
        if epoch.start <= offset:
            return epoch, following
        following = epoch.start
    return (epochs[0], epochs[1].start if len(epochs) > 1 else None) if epochs else (Epoch(-1, 0), None)


class EpochFile:
    """The epochs of one store."""

    def __init__(self, root: Path) -> None:
        self._file = DurableTable(root / FILE_NAME, encode=encode_epoch_file, decode=decode_epoch_file)
        self.epochs: Epochs = self._file.load() or ()

    @property
    def last(self) -> int:
        """Number of the newest epoch; -1 if there is none."""
        return self.epochs[-1].number if self.epochs else -1

    def use(self, epochs: Epochs) -> None:
        """Replace the epochs, durably. Blocks for a small file."""
        if epochs != self.epochs:
            self._file.save(epochs)
            self.epochs = epochs


def encode_epoch_file(epochs: Epochs) -> bytes:
    """Return the content of an epoch file."""
    lines = "".join(f"{epoch.number}-{epoch.start}\n" for epoch in epochs).encode()
    return b"%d\n%d\n%b" % (len(epochs), zlib.crc32(lines) & 0x7FFF_FFFF, lines)


def decode_epoch_file(raw: bytes) -> Epochs:
    """Return the epochs of a file; StoreDamaged if it is no such file, or damaged. A checksum of 0 is not checked."""
    count, checksum, *lines = raw.decode("ascii").splitlines()
    text = "".join(f"{line}\n" for line in lines).encode()
    if int(checksum) not in (0, zlib.crc32(text) & 0x7FFF_FFFF) or int(count) != len(lines):
        raise StoreDamaged("its checksum or its number of lines is wrong")
    epochs = tuple(Epoch(*map(int, line.split("-"))) for line in lines)
    if any(later.number <= epoch.number or later.start < epoch.start for epoch, later in pairwise(epochs)):
        raise StoreDamaged("its epochs do not ascend")
    return epochs
