"""Encoding of a replication connection in controller mode (5.x). Integers are big-endian.

    slave -> master   HANDSHAKE   int32 1, int16 from the last file, int16 learner, int64 broker id
    master -> slave   HANDSHAKE   int32 1, int32 size, int64 end of the log, int32 newest epoch; entries of 12 bytes:
                                  int32 epoch, int64 start
    master -> slave   TRANSFER    int32 2, int32 size, int64 offset, int32 epoch, int64 start of the epoch,
                                  int64 confirmed; raw bytes of the log; size 0 is a heartbeat
    slave -> master   TRANSFER    int32 2, int64 end of its log

A piece never crosses an epoch. Agrees with AutoSwitchHAConnection and AutoSwitchHAClient (5.3.3).
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from hanabi.errors import RemoteProtocolError
from hanabi.replication.autoswitch.epochs import Epoch
from hanabi.replication.wire import PIECE_BYTES_MAX

HANDSHAKE: Final = 1
TRANSFER: Final = 2
EPOCHS_MAX: Final = 1_000  # of one handshake, as Apache

_STATE: Final = struct.Struct(">i")
_HELLO: Final = struct.Struct(">ihhq")
_REPORT: Final = struct.Struct(">iq")
_EPOCHS: Final = struct.Struct(">iiqi")
_EPOCH: Final = struct.Struct(">iq")
_PIECE: Final = struct.Struct(">iiqiqq")
_EPOCHS_BYTES_MAX: Final = 100_000 * _EPOCH.size


class Hello(NamedTuple):
    """First frame of a slave."""

    is_from_last_file: bool
    is_learner: bool
    broker_id: int


class MasterEpochs(NamedTuple):
    """The master's answer to a hello."""

    end_offset: int
    epochs: tuple[Epoch, ...]


class LabelledPiece(NamedTuple):
    """Bytes of the master's log of one epoch; without bytes, a heartbeat."""

    offset: int
    epoch: Epoch
    confirmed: int
    data: memoryview


def encode_hello(hello: Hello) -> bytes:
    """Encode the first frame of a slave."""
    return _HELLO.pack(HANDSHAKE, hello.is_from_last_file, hello.is_learner, hello.broker_id)


def encode_report(offset: int) -> bytes:
    """Encode the offset up to which a slave holds the log."""
    return _REPORT.pack(TRANSFER, offset)


def encode_epochs(end_offset: int, epochs: Sequence[Epoch]) -> bytes:
    """Encode the master's answer to a hello: its newest epochs."""
    newest = epochs[-EPOCHS_MAX:]
    last = newest[-1].number if newest else -1
    entries = b"".join(_EPOCH.pack(epoch.number, epoch.start) for epoch in newest)
    return _EPOCHS.pack(HANDSHAKE, len(entries), end_offset, last) + entries


def encode_piece_header(offset: int, size: int, epoch: Epoch, confirmed: int) -> bytes:
    """Encode the header of a piece of *size* bytes."""
    return _PIECE.pack(TRANSFER, size, offset, epoch.number, epoch.start, confirmed)


class SlaveParser:
    """Parser of one slave's frames. Keeps less than one frame."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Hello | int]:
        """Return the complete frames: a hello, or the offset of a report."""
        data = self._rest + data
        frames: list[Hello | int] = []
        at = 0
        while len(data) - at >= _STATE.size:
            (state,) = _STATE.unpack_from(data, at)
            form = _HELLO if state == HANDSHAKE else _REPORT
            if state not in (HANDSHAKE, TRANSFER):
                raise RemoteProtocolError(f"a frame of state {state}, which no slave sends")
            if len(data) - at < form.size:
                break
            values = form.unpack_from(data, at)
            frames.append(Hello(bool(values[1]), bool(values[2]), values[3]) if state == HANDSHAKE else values[1])
            at += form.size
        self._rest = data[at:]
        return frames


class MasterParser:
    """Parser of a master's frames. A piece that arrives in parts is returned in parts, each with its own offset."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        self._offset, self._epoch, self._confirmed = 0, Epoch(-1, 0), 0

    def feed(self, data: memoryview) -> Iterator[MasterEpochs | LabelledPiece]:
        """Yield the frames in *data*; pieces without a copy. Raise RemoteProtocolError if no master sends it."""
        view = data
        while view:
            if self._left:
                part, view = view[: self._left], view[self._left :]
                offset = self._offset
                self._offset, self._left = offset + len(part), self._left - len(part)
                yield LabelledPiece(offset, self._epoch, self._confirmed, part)
                continue
            missing = self._missing()
            taken, view = view[:missing], view[missing:]
            self._head += taken
            if not self._missing():
                yield from self._complete(view)

    def _missing(self) -> int:
        """Return how many bytes complete the header in `_head`, as far as its kind is known."""
        head = self._head
        if len(head) < 2 * _STATE.size:
            return 2 * _STATE.size - len(head)
        state, size = struct.unpack_from(">ii", head)
        if state == HANDSHAKE:
            if not 0 <= size <= _EPOCHS_BYTES_MAX or size % _EPOCH.size:
                raise RemoteProtocolError(f"a list of epochs of {size} bytes")
            return int(_EPOCHS.size + size - len(head))
        if state != TRANSFER:
            raise RemoteProtocolError(f"a frame of state {state}, which no master sends")
        return _PIECE.size - len(head)

    def _complete(self, view: memoryview) -> Iterator[MasterEpochs | LabelledPiece]:
        head, self._head = self._head, b""
        if _STATE.unpack_from(head)[0] == HANDSHAKE:
            end_offset = _EPOCHS.unpack_from(head)[2]
            yield MasterEpochs(end_offset, tuple(Epoch(*entry) for entry in _EPOCH.iter_unpack(head[_EPOCHS.size :])))
            return
        _, size, offset, number, start, self._confirmed = _PIECE.unpack(head)
        if not 0 <= size <= PIECE_BYTES_MAX or not 0 <= offset < 2**63 - size:
            raise RemoteProtocolError(f"a piece of {size} bytes at {offset}")
        self._offset, self._left, self._epoch = offset, size, Epoch(number, start)
        if not size:
            yield LabelledPiece(offset, self._epoch, self._confirmed, view[:0])
