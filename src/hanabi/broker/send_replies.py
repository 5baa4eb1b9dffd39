"""The answers to sends: as `wire.command.encode_reply_head` makes them, from pieces that were cut before.

JSON     {"code":0,"extFields":{"msgId":"│ids│","queueId":"│number│","queueOffset":"│number│"...,"opaque":│number│...}
binary   head, in which are the opaque number and the length of the fields │ msgId, queueId, queueOffset │ the others
"""

import struct
from collections.abc import Sequence
from typing import Final

_pack_length_and_form = struct.Struct(">II").pack
_BINARY_FORM: Final = 1 << 24
_OPAQUE_AT: Final = 5  # in a binary head
_FIELDS_BYTES: Final = 4  # the end of it: how long the fields are


class SendReplies:
    """How the answers of one broker look, with settings as they are now."""

    def __init__(self, json_pieces: Sequence[bytes], binary_head: bytes, binary_tail: bytes) -> None:
        """The parts as `express.parts_of_answer` cuts them."""
        before_id, before_queue, before_offset, before_opaque, end = (
            piece.replace(b"%", b"%%") for piece in json_pieces
        )
        self._json = b"%b%%b%b%%d%b%%d%b%%d%b" % (before_id, before_queue, before_offset, before_opaque, end)
        self._head_start = binary_head[:_OPAQUE_AT]
        self._head_end = binary_head[_OPAQUE_AT + 4 : -_FIELDS_BYTES]
        self._tail = binary_tail

    def encode(self, is_json: bool, opaque: int, ids: bytes, queue_id: int, queue_offset: int) -> bytes:
        """The answer for messages with these *ids*, the first of which got this offset in its queue."""
        if is_json:
            header = self._json % (ids, queue_id, queue_offset, opaque)
            return _pack_length_and_form(4 + len(header), len(header)) + header
        header = self._binary(opaque, ids, queue_id, queue_offset)
        return _pack_length_and_form(4 + len(header), _BINARY_FORM | len(header)) + header

    def _binary(self, opaque: int, ids: bytes, queue_id: int, queue_offset: int) -> bytes:
        queue, offset = b"%d" % queue_id, b"%d" % queue_offset
        fields = b"\x00\x05msgId%b%b\x00\x07queueId%b%b\x00\x0bqueueOffset%b%b%b" % (
            *(len(ids).to_bytes(4), ids),
            *(len(queue).to_bytes(4), queue),
            *(len(offset).to_bytes(4), offset),
            self._tail,
        )
        opaque_bytes = opaque.to_bytes(4, signed=True)
        return b"".join((self._head_start, opaque_bytes, self._head_end, len(fields).to_bytes(4), fields))
