from hanabi.errors import MQError
from hanabi.message import StoredMessage
from hanabi.wire.message.record import Dispatch, Readable

def encode_record(
    *,
    topic: bytes,
    body: bytes | bytearray | memoryview,
    properties: bytes = b"",
    queue_id: int,
    flag: int = 0,
    sys_flag: int = 0,
    born_timestamp_ms: int,
    born_host: bytes,
    store_timestamp_ms: int = 0,
    store_host: bytes,
    reconsume_times: int = 0,
    prepared_offset: int = 0,
    queue_offset: int = 0,
    log_offset: int = 0,
    crc: int | None = None,
    magic: int | None = None,
) -> bytearray: ...
def is_record(
    buffer: Readable,
    position: int,
    size: int,
    topic: bytes,
    queue_id: int,
    queue_offset: int,
    log_offset: int,
    check_crc: bool,
) -> bool: ...
def indexed_properties(raw: bytes) -> tuple[str | None, str | None, str | None]: ...
def decode_dispatch(
    buffer: Readable, position: int = 0, end: int | None = None, *, check_crc: bool = False
) -> Dispatch: ...
def to_messages(
    records: bytes, broker_name: str = "", offset_delta: int = 0
) -> tuple[list[StoredMessage], MQError | None]: ...
