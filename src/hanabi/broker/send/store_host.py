"""Address of this broker in its messages, and the message ids made from it.

It is the advertised address as numbers, because a record has no room for a name; see `addresses`. Agrees with Java's
MessageDecoder.createMessageId.
"""

from hanabi.wire.message.hosts import decode_host


class StoreHost:
    """The address in three forms: `raw` for records, `text` for headers, `host` for sentences."""

    def __init__(self, raw: bytes) -> None:
        address = decode_host(raw)
        self.raw, self.host, self.text = raw, address.host, str(address)
        self._id_prefix = raw.hex().upper()

    def message_id(self, log_offset: int) -> str:
        """Return the id of the message at *log_offset*: `wire.message.message_id.encode_offset_id` with a cached first
        part."""
        return self._id_prefix + log_offset.to_bytes(8, "big").hex().upper()
