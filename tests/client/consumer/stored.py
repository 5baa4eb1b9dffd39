"""Messages as a broker would have stored them, for tests that need no broker."""

from typing import Any

from hanabi.message import Address, StoredMessage


def stored(queue_offset: int = 0, **fields: Any) -> StoredMessage:
    """Return a message at *queue_offset*, with *fields* in place of what does not matter."""
    plain: dict[str, Any] = {
        "topic": "Orders",
        "body": b"body",
        "tags": None,
        "keys": (),
        "properties": {},
        "flag": 0,
        "queue_id": 0,
        "message_id": f"id-{queue_offset}",
        "offset_message_id": f"offset-id-{queue_offset}",
        "born_timestamp_ms": 1,
        "born_host": Address("127.0.0.1", 1),
        "store_timestamp_ms": 2,
        "store_host": Address("127.0.0.1", 2),
        "reconsume_times": 0,
        "prepared_offset": 0,
        "sys_flag": 0,
        "log_offset": 100 * queue_offset,
        "size": 100,
        "body_crc": 0,
        "broker_name": "broker-a",
    }
    return StoredMessage(queue_offset=queue_offset, **{**plain, **fields})
