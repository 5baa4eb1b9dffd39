"""A scan of the commit log, record by record, in pieces of a megabyte.

Damage does not end the scan: the next record behind it is found by its magic number, and must state the log offset
where it was found. So one bad bit costs one record, also in the report.

A running broker may append during the scan. So a record that is not valid is read again before it counts as damaged.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from hanabi.store.inspection.home import DataFile, FileReader
from hanabi.wire.frame import FRAME_BYTES_MAX
from hanabi.wire.message.record import (
    BLANK_BYTES_MIN,
    MAGIC,
    MAGIC_BLANK,
    MAGIC_LONG_TOPIC,
    Checked,
    Dispatch,
    RecordState,
    check_record,
    decode_dispatch,
)

PIECE_BYTES: Final = 1 << 20
RECORD_BYTES_MAX: Final = FRAME_BYTES_MAX + (1 << 20)  # no larger message can reach a broker
_SHORT_READ_BYTES: Final = 4_096
_SIZE_BYTES: Final = 4  # every record begins with its size; its magic follows
_MAGICS: Final = re.compile(
    b"|".join(re.escape(magic.to_bytes(4, "big")) for magic in (MAGIC, MAGIC_LONG_TOPIC, MAGIC_BLANK))
)


class Whole(NamedTuple):
    """A record that is whole and valid: it begins at *position* of *buffer*."""

    dispatch: Dispatch
    buffer: bytes
    position: int

    @property
    def end(self) -> int:
        return self.position + self.dispatch.size


class Broken(NamedTuple):
    """A stretch of a file in which there is no record that is whole and valid."""

    file: DataFile
    log_offset: int
    until: int  # a log offset: where the next record begins, or where the file ends
    reason: str
    is_torn: bool  # something is written there; otherwise it is zeros


def read_record(reader: FileReader, file: DataFile, position: int) -> bytes:
    """Return the bytes of the record at *position* of a file, by its own size, if that is plausible."""
    data = reader.read(file.path, position, min(_SHORT_READ_BYTES, file.size - position))
    size = int.from_bytes(data[:_SIZE_BYTES], "big")
    if len(data) < size <= min(file.size - position, RECORD_BYTES_MAX):
        data = reader.read(file.path, position, size)
    return data


class LogScan:
    """Yields everything in *files*, in order: `Whole` records, and `Broken` stretches between them.

    Zeros at the end are no damage: there the log ends, and files made ahead may follow. `end_offset` is known when the
    scan is over: behind the last record, or its filler.
    """

    def __init__(
        self,
        files: list[DataFile],
        reader: FileReader,
        *,
        start: int | None = None,
        on_bytes: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Begin with the first record at or behind log offset *start*. *on_bytes* receives the progress."""
        self._files, self._reader, self._start, self._on_bytes = files, reader, start, on_bytes
        self.min_offset = files[0].base if files else 0
        self.end_offset = self.min_offset

    def __iter__(self) -> Iterator[Whole | Broken]:
        ending: list[Broken] = []  # zeros: the end of the log, unless something follows
        for file in self._files:
            if self._start is not None and file.end <= self._start:
                continue
            for piece in self._scan_file(file):
                if isinstance(piece, Broken) and not piece.is_torn and piece.until == file.end:
                    ending.append(piece)
                    continue
                yield from ending
                ending.clear()
                yield piece
            if ending and self.end_offset >= file.end:  # a filler in a file is enough to go on
                yield from ending
                ending.clear()

    def _scan_file(self, file: DataFile) -> Iterator[Whole | Broken]:
        window = _Window(self._reader, file, self._on_bytes)
        position: int | None = 0
        if self._start is not None and self._start > file.base:
            position = self._next_record(file, self._start - file.base)
        while position is not None and position < file.size:
            checked, dispatch = window.check(position)
            if dispatch is not None:
                yield Whole(dispatch, window.data, window.at)
                position += checked.size
                self.end_offset = file.base + position
                if position == file.size:  # every file keeps room for a filler, so a record never ends with its file
                    reason = "the file ends here without a filler: it was cut"
                    yield Broken(file, file.end, file.end, reason, is_torn=True)
            elif checked.state is RecordState.BLANK:
                self.end_offset = file.end
                break
            elif window.is_gone:
                self._deleted(file)
                break
            else:
                found = self._next_record(file, position + 1)
                if found is not None and window.check_again(position)[1] is not None:
                    continue  # written since it was read, like the record found behind it
                until = file.size if found is None else found
                is_torn = checked.state is RecordState.INVALID
                yield Broken(file, file.base + position, file.base + until, checked.reason, is_torn)
                position = until
        window.advance(file.size)

    def _next_record(self, file: DataFile, start: int) -> int | None:
        """Return the position of the first record or filler from *start* on that says itself that it belongs there."""
        magic_at: int | None = start + _SIZE_BYTES
        while magic_at is not None and magic_at < file.size:
            magic_at = self._reader.next_data(file.path, magic_at)
            if magic_at is None:
                return None
            data = self._reader.read(file.path, magic_at, PIECE_BYTES)
            for match in _MAGICS.finditer(data):
                position = magic_at + match.start() - _SIZE_BYTES
                checked, dispatch = _check(file, position, read_record(self._reader, file, position), 0)
                if dispatch is not None:
                    return position
                if checked.state is RecordState.BLANK and position + checked.size == file.size:
                    return position
            if len(data) < BLANK_BYTES_MIN:
                return None
            magic_at += len(data) - (_SIZE_BYTES - 1)  # a magic may lie across the border
        return None

    def _deleted(self, file: DataFile) -> None:
        """Move the beginning of the log behind *file*, which a broker deleted during the scan."""
        if file.base == self.min_offset:
            self.min_offset = file.end
        self.end_offset = max(self.end_offset, file.end)


class _Window:
    """The piece of one file that is in memory: the record last asked for begins at `at` of `data`."""

    def __init__(self, reader: FileReader, file: DataFile, on_bytes: Callable[[int], None]) -> None:
        self._reader, self._file, self._on_bytes = reader, file, on_bytes
        self._start = self._reported = 0
        self.data = b""
        self.at = 0

    @property
    def is_gone(self) -> bool:
        """Return True if a broker deleted the file before anything of it was read."""
        return not self.data and not self._start and not self._reader.is_there(self._file.path)

    def check(self, position: int) -> tuple[Checked, Dispatch | None]:
        """Check the record at *position*. If it is not valid, read it again: it may have been half written."""
        data = self.data
        at = self.at = position - self._start
        size = int.from_bytes(data[at : at + _SIZE_BYTES], "big") if at + BLANK_BYTES_MIN <= len(data) else 0
        if not size or at + size > len(data):
            self.advance(position)
            wanted = max(PIECE_BYTES, size if size <= RECORD_BYTES_MAX else 0)
            self._set(position, self._reader.read(self._file.path, position, wanted))
        checked, dispatch = _check(self._file, position, self.data, self.at)
        if checked.state is RecordState.INVALID:
            return self.check_again(position)
        return checked, dispatch

    def check_again(self, position: int) -> tuple[Checked, Dispatch | None]:
        """Check the record at *position* again, read from the file."""
        self._set(position, read_record(self._reader, self._file, position))
        return _check(self._file, position, self.data, 0)

    def advance(self, position: int) -> None:
        """Report the progress."""
        self._on_bytes(position - self._reported)
        self._reported = position

    def _set(self, start: int, data: bytes) -> None:
        self._start, self.data, self.at = start, data, 0


def _check(file: DataFile, position: int, data: bytes, at: int) -> tuple[Checked, Dispatch | None]:
    """Check the record at *position* of *file*, *at* in *data*. The second result is None if it is not valid."""
    checked = check_record(data, at)
    if checked.state is not RecordState.WHOLE:
        if checked.state is RecordState.UNWRITTEN:
            return checked._replace(reason="nothing is written here"), None
        return checked._replace(reason=_reason(checked, file, position, data, at)), None
    dispatch = decode_dispatch(data, at, at + checked.size)
    if dispatch.log_offset != file.base + position:
        reason = f"the record says that it lies at log offset {dispatch.log_offset}"
        return Checked(RecordState.INVALID, 0, reason), None
    return checked, dispatch


def _reason(checked: Checked, file: DataFile, position: int, data: bytes, at: int) -> str:
    """Return why it is broken, without figures that are only those of the piece in memory."""
    reason = checked.reason.removeprefix(f"record at {at}: ")
    size = int.from_bytes(data[at : at + _SIZE_BYTES], "big", signed=True)
    if at == len(data) < file.size:
        return "the file ends here: it was cut"
    if reason.startswith("size ") and size > file.size - position:
        return f"size {size}, {file.size - position} bytes left in the file"
    if reason.startswith("size ") and size > RECORD_BYTES_MAX:
        return f"size {size}, no message can have more than {RECORD_BYTES_MAX}"
    return reason
