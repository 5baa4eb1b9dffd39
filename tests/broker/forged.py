"""A message whose body is a record of its own: valid in every respect for the place in the log where it will lie."""

from collections.abc import Mapping

from hanabi.wire.message.properties import encode_properties
from hanabi.wire.message.record import encode_record

BODY_AT = 88  # of a record with addresses of four bytes
HOST = bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))


def forged_record(log_end: int, topic: str, properties: Mapping[str, str], *, queue_offset: int = 0) -> bytes:
    """Return the body to send, when the log ends at *log_end*; the record in it lies at `log_end + BODY_AT`."""
    record = encode_record(
        topic=topic.encode(),
        body=b"forged",
        properties=encode_properties(properties),
        queue_id=0,
        born_timestamp_ms=1_700_000_000_000,
        born_host=HOST,
        store_timestamp_ms=1_700_000_000_000,
        store_host=HOST,
        queue_offset=queue_offset,
        log_offset=log_end + BODY_AT,
    )
    return bytes(record)
