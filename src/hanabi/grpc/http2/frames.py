"""Frames of HTTP/2 (RFC 9113, 4 and 6): numbers, and their nine octets in front."""

import struct
from enum import IntEnum
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD: Final = struct.Struct(">HBBBI")  # length (the upper 16 of 24 bits, the lower 8), kind, flags, stream
HEAD_BYTES: Final = HEAD.size
FRAME_BYTES_MAX: Final = 16_384  # SETTINGS_MAX_FRAME_SIZE, the default and the smallest
WINDOW_BYTES: Final = 65_535  # of each stream and of the connection, at the start
WINDOW_BYTES_MAX: Final = 2**31 - 1
STREAM_MASK: Final = 0x7FFF_FFFF

U32: Final = struct.Struct(">I")
SETTING: Final = struct.Struct(">HI")

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITY_FLAG: Final = 0x20


class Kind(IntEnum):
    """Kinds of frames."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


class Fault(IntEnum):
    """Codes of errors, in RST_STREAM and GOAWAY."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11


class Setting(IntEnum):
    """Numbers of settings."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """Return one frame."""
    length = len(payload)
    return HEAD.pack(length >> 8, length & 0xFF, kind, flags, stream_id) + payload


def settings_frame(values: dict[Setting, int]) -> bytes:
    """Return a SETTINGS frame."""
    return frame(Kind.SETTINGS, 0, 0, b"".join(SETTING.pack(number, value) for number, value in values.items()))


def window_update(stream_id: int, size: int) -> bytes:
    """Return a WINDOW_UPDATE frame."""
    return frame(Kind.WINDOW_UPDATE, 0, stream_id, U32.pack(size))
