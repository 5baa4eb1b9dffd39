"""Files of a simulated broker: its log, of which a crash may take the unflushed end, and its small durable tables."""

from hanabi.broker.replica.broker_identity import Identity, IdentityFiles
from hanabi.replication.autoswitch.epochs import EpochFile, Epochs

RECORD_BYTES = 16


class Log:
    """A log in memory: records of one size. `flushed` bytes of it survive a power cut."""

    min_offset = 0
    file_bytes = 1 << 30

    def __init__(self) -> None:
        self.data = bytearray()
        self.flushed = 0

    @property
    def end_offset(self) -> int:
        return len(self.data)

    @property
    def compared_from(self) -> int:
        return min(max(len(self.data) - RECORD_BYTES, 1), len(self.data))

    def append(self, record: bytes) -> int:
        assert len(record) == RECORD_BYTES
        self.data += record
        return len(self.data)

    def slice(self, offset: int, bytes_max: int) -> memoryview | None:
        if not 0 <= offset <= len(self.data):
            return None
        return memoryview(bytes(self.data[offset : offset + bytes_max]))

    def is_in_memory(self, offset: int, size: int) -> bool:
        return True

    def load(self, offset: int, size: int) -> None:
        return None

    def append_raw(self, offset: int, *pieces: memoryview) -> None:
        assert not pieces or offset == len(self.data)
        for piece in pieces:
            self.data += piece

    def cut_partial_record(self) -> None:
        del self.data[len(self.data) // RECORD_BYTES * RECORD_BYTES :]

    def truncate(self, offset: int) -> None:
        del self.data[offset:]
        self.flushed = min(self.flushed, offset)

    def flush(self) -> None:
        self.flushed = len(self.data)


class MemoryEpochs(EpochFile):
    """An epoch file that outlives its broker in memory."""

    def __init__(self) -> None:
        self.epochs = ()

    def use(self, epochs: Epochs) -> None:
        self.epochs = epochs


class MemoryIdentity(IdentityFiles):
    """The files of an identity, in memory."""

    def __init__(self, cluster: str, name: str) -> None:
        self._names = cluster, name
        self.identity = self.application = None

    def apply(self, broker_id: int, check_code: str) -> None:
        self.application = Identity(*self._names, broker_id, check_code)

    def withdraw(self) -> None:
        self.application = None

    def confirm(self) -> None:
        self.identity, self.application = self.application, None
