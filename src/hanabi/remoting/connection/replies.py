"""Replies as bytes. Pure: no socket, no clock.

A reply that cannot be encoded, or that no client would read, becomes an error reply: it fails, not the connection.
"""

import logging

from hanabi.remoting.connection.dispatch import Reply
from hanabi.remoting.connection.writing import Piece
from hanabi.wire.codes import ResponseCode, request_name
from hanabi.wire.command import Command, encode_reply_head
from hanabi.wire.frame import FRAME_BYTES_MAX
from hanabi.wire.header import header_fields

logger = logging.getLogger(__name__)


def append_reply(pieces: list[Piece], request: Command, reply: Reply, peer: str) -> int:
    """Append the frame of *reply* to *pieces*; return its size in bytes."""
    body = reply.body
    try:
        body_bytes = sum(map(len, body)) if isinstance(body, list) else len(body)
        fields = header_fields(reply.header) if reply.header is not None else reply.fields
        head = encode_reply_head(request, reply.code, reply.remark, fields, body_bytes)
        if len(head) + body_bytes > FRAME_BYTES_MAX:
            head, body, body_bytes = _too_long(request, len(head) + body_bytes, peer), b"", 0
    except Exception as error:  # half a surrogate pair in a name, say
        logger.error("%s: the reply to %s cannot be encoded", peer, request_name(request.code), exc_info=error)
        head = encode_reply_head(request, ResponseCode.SYSTEM_ERROR, "the answer cannot be encoded")
        body, body_bytes = b"", 0
    pieces.append(head)
    if isinstance(body, list):
        pieces += body
    elif body_bytes:
        pieces.append(body)
    return len(head) + body_bytes


def _too_long(request: Command, size: int, peer: str) -> bytes:
    """Return the reply in place of one that no client reads: it would close the connection without a word."""
    name = request_name(request.code)
    logger.warning("%s: the reply to %s has %d bytes, and clients read %d", peer, name, size, FRAME_BYTES_MAX)
    remark = f"the answer to {name} has {size} bytes, limit {FRAME_BYTES_MAX}: ask for less at once"
    return encode_reply_head(request, ResponseCode.SYSTEM_ERROR, remark)
