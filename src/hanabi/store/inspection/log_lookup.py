"""Single records of the commit log, by log offset."""

from hanabi.store.inspection.home import DataFile, FileReader, StoreHome, file_bytes
from hanabi.store.inspection.log_scan import read_record


class LogLookup:
    """Reads records at given offsets. A running broker adds and deletes files meanwhile: `refresh` looks again."""

    def __init__(self, home: StoreHome, reader: FileReader) -> None:
        self._home, self._reader = home, reader
        self._files: list[DataFile] = []
        self.refresh()

    def refresh(self) -> None:
        self._files = self._home.log_files()

    @property
    def min_offset(self) -> int:
        return self._files[0].base if self._files else 0

    def read(self, log_offset: int) -> bytes | None:
        """Return the record at *log_offset*, if one is there; None if the log has no such offset."""
        file = self._find(log_offset)
        if file is None and self._may_be_new(log_offset):
            self.refresh()
            file = self._find(log_offset)
        return read_record(self._reader, file, log_offset - file.base) if file is not None else None

    def _find(self, log_offset: int) -> DataFile | None:
        files = self._files
        low, high = 0, len(files)
        while low < high:
            middle = (low + high) // 2
            if files[middle].end <= log_offset:
                low = middle + 1
            else:
                high = middle
        return files[low] if low < len(files) and files[low].base <= log_offset else None

    def _may_be_new(self, log_offset: int) -> bool:
        """Return whether it lies just behind the files we know. Damage points anywhere, and is not worth a look each
        time."""
        end = self._files[-1].end if self._files else 0
        return end <= log_offset < end + 2 * max(file_bytes(self._files), 1)
