"""The address that messages of this broker carry as theirs, and the ids that are made of it.

It is the advertised address in figures, because a record has no room for a name; see `addresses`. Agrees with Java's
MessageDecoder.createMessageId.
"""

from hanabi.wire.message.hosts import decode_host


class StoreHost:
    """`raw` is for records, `text` for headers, `host` for sentences."""

    def __init__(self, raw: bytes) -> None:
        address = decode_host(raw)
        self.raw, self.host, self.text = raw, address.host, str(address)
        self._id_prefix = raw.hex().upper()

    def message_id(self, log_offset: int) -> str:
        """Return the id of the message at *log_offset*: `wire.message.message_id.encode_offset_id`, with its first
        part made once."""
        return self._id_prefix + log_offset.to_bytes(8, "big").hex().upper()
