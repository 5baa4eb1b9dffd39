"""The answers to sends: as `wire.command.encode_reply_head` makes them, from pieces that were cut before.

JSON     {"code":0,"extFields":{"msgId":"│ids│","queueId":"│number│","queueOffset":"│number│"...,"opaque":│number│...}
binary   head, in which are the opaque number and the length of the fields │ msgId, queueId, queueOffset │ the others
"""

import struct
from collections.abc import Sequence
from typing import Final

_BINARY_FORM: Final = 1 << 24
_BINARY_HEAD: Final = struct.Struct(">5si8sI")  # what stands around the opaque number, and the length of the fields
_BINARY_HEAD_BYTES: Final = _BINARY_HEAD.size
_LENGTH_BYTES: Final = 4

_pack_length_and_form = struct.Struct(">II").pack
_pack_binary_head = struct.Struct(">II5si8sI").pack  # with these two before it


class SendReplies:
    """How the answers of one broker look, with settings as they are now."""

    def __init__(self, id_prefix: bytes, json_pieces: Sequence[bytes], binary_head: bytes, binary_tail: bytes) -> None:
        """The parts as `express.parts_of_answer` cuts them."""
        before_id, before_queue, before_offset, before_opaque, end = (
            piece.replace(b"%", b"%%") for piece in json_pieces
        )
        self._id = id_prefix + b"%016X"  # of a message, by its place in the log
        numbers = b"%b%%d%b%%d%b%%d%b" % (before_queue, before_offset, before_opaque, end)
        self._json_one, self._json = before_id + self._id + numbers, before_id + b"%b" + numbers
        self._head_start, _, self._head_end, _ = _BINARY_HEAD.unpack(binary_head)
        tail = binary_tail.replace(b"%", b"%%")
        self._fields = b"\x00\x05msgId%b%b\x00\x07queueId\0\0\0%c%b\x00\x0bqueueOffset\0\0\0%c%b" + tail

    def to_one(self, is_json: bool, opaque: int, log_offset: int, queue_id: int, queue_offset: int) -> bytes:
        """The answer for a message at these offsets, in the log and in its queue."""
        if is_json:
            header = self._json_one % (log_offset, queue_id, queue_offset, opaque)
            header_bytes = len(header)
            return _pack_length_and_form(_LENGTH_BYTES + header_bytes, header_bytes) + header
        return self._binary(opaque, self._id % log_offset, queue_id, queue_offset)

    def to_batch(
        self, is_json: bool, opaque: int, log_offsets: Sequence[int], queue_id: int, queue_offset: int
    ) -> bytes:
        """The answer for messages at these offsets in the log; the first of them got this one in its queue."""
        ids = b",".join([self._id % log_offset for log_offset in log_offsets])
        if is_json:
            header = self._json % (ids, queue_id, queue_offset, opaque)
            return _pack_length_and_form(_LENGTH_BYTES + len(header), len(header)) + header
        return self._binary(opaque, ids, queue_id, queue_offset)

    def _binary(self, opaque: int, ids: bytes, queue_id: int, queue_offset: int) -> bytes:
        queue, offset = b"%d" % queue_id, b"%d" % queue_offset
        fields = self._fields % (len(ids).to_bytes(4), ids, len(queue), queue, len(offset), offset)
        header_bytes = _BINARY_HEAD_BYTES + len(fields)
        lengths = _LENGTH_BYTES + header_bytes, _BINARY_FORM | header_bytes
        return _pack_binary_head(*lengths, self._head_start, opaque, self._head_end, len(fields)) + fields
