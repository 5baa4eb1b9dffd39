"""Replies of gRPC as HTTP/2 carries them: constant blocks of header fields, messages behind their length."""

import struct
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from hanabi.grpc.http2.hpack import encode
from hanabi.grpc.proto.numbers import RpcStatus

PREFIX: Final = struct.Struct(">BI")  # compressed? and the length
_TEXT_CHARACTERS_MAX: Final = 512
_FIELDS: Final = ((":status", "200"), ("content-type", "application/grpc"))
HEAD: Final = encode(_FIELDS)
TRAILERS_OK: Final = encode([("grpc-status", "0")])
NOT_GRPC: Final = encode([(":status", "415")])


@lru_cache(maxsize=256)
def trailers(status: RpcStatus, text: str) -> bytes:
    """Return the fields that end a reply."""
    return encode(_status_fields(status, text))


def only_trailers(status: RpcStatus, text: str) -> bytes:
    """Return the fields of a reply that has nothing else."""
    return encode((*_FIELDS, *_status_fields(status, text)))


def _status_fields(status: RpcStatus, text: str) -> list[tuple[str, str]]:
    fields = [("grpc-status", str(int(status)))]
    if text:
        fields.append(("grpc-message", quote(text[:_TEXT_CHARACTERS_MAX], safe=" !\"#$&'()*+,-./:;<=>?@[]^_`{|}~")))
    return fields


def prefixed(message: bytes) -> bytes:
    """Return *message* behind its length."""
    return PREFIX.pack(0, len(message)) + message
