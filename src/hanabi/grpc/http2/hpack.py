"""HPACK (RFC 7541): header fields in their compressed form.

The decoder keeps the table that the peer's encoder builds. Our encoder builds none: it writes literals that no table
keeps, so each block stands by itself and constant blocks are encoded once.
"""

from collections import deque
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from hanabi.errors import RemoteProtocolError
from hanabi.grpc.http2 import huffman

Field = tuple[str, str]

TABLE_BYTES: Final = 4096  # SETTINGS_HEADER_TABLE_SIZE, the default
_OVERHEAD: Final = 32  # of each field, by RFC 7541, 4.1
_NUMBER_OCTETS_MAX: Final = 4
_CACHED_BYTES_MAX: Final = 256  # a longer text in Huffman code is not kept

_UNVALUED: Final = (
    "accept-language",
    "accept-ranges",
    "accept",
    "access-control-allow-origin",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "link",
    "location",
    "max-forwards",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "refresh",
    "retry-after",
    "server",
    "set-cookie",
    "strict-transport-security",
    "transfer-encoding",
    "user-agent",
    "vary",
    "via",
    "www-authenticate",
)

STATIC: Final[tuple[Field, ...]] = (
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    *((":status", code) for code in ("200", "204", "206", "304", "400", "404", "500")),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    *((name, "") for name in _UNVALUED),
)
_STATIC_NAMES: Final = {name: index + 1 for index, (name, _) in reversed(list(enumerate(STATIC)))}


class HeadersTooLarge(RemoteProtocolError):
    """The fields of one block exceed the limit."""


class Decoder:
    """The decoding side of one connection. *list_bytes_max* bounds the fields of one block, by the RFC's count."""

    def __init__(self, list_bytes_max: int, table_bytes_max: int = TABLE_BYTES) -> None:
        self._list_bytes_max, self._allowed_bytes = list_bytes_max, table_bytes_max
        self._table: deque[Field] = deque()  # the newest first
        self._table_bytes, self._table_bytes_max = 0, table_bytes_max

    @property
    def table(self) -> tuple[Field, ...]:
        """The fields of the dynamic table, the newest first."""
        return tuple(self._table)

    def decode(self, block: bytes) -> list[Field]:
        """Return the fields of a whole block. An error ends the connection: the table is not the peer's any more."""
        fields: list[Field] = []
        position, end, size = 0, len(block), 0
        while position < end:
            octet = block[position]
            if octet & 0x80:
                index, position = _number(block, position, 7)
                field = self._field(index)
            elif octet & 0x40:
                field, position = self._literal(block, position, 6)
                self._add(field)
            elif octet & 0x20:
                if fields:
                    raise RemoteProtocolError("HPACK: a change of the table's size behind a field")
                position = self._resize(block, position)
                continue
            else:
                field, position = self._literal(block, position, 4)
            size += len(field[0]) + len(field[1]) + _OVERHEAD
            if size > self._list_bytes_max:
                raise HeadersTooLarge(f"header fields of more than {self._list_bytes_max} bytes")
            fields.append(field)
        return fields

    def _literal(self, block: bytes, position: int, bits: int) -> tuple[Field, int]:
        index, position = _number(block, position, bits)
        if index:
            name = self._field(index)[0]
        else:
            name, position = _text(block, position)
        value, position = _text(block, position)
        return (name, value), position

    def _field(self, index: int) -> Field:
        if 0 < index <= len(STATIC):
            return STATIC[index - 1]
        place = index - len(STATIC) - 1
        if not 0 <= place < len(self._table):
            raise RemoteProtocolError(f"HPACK: there is no field {index} in the table")
        return self._table[place]

    def _add(self, field: Field) -> None:
        size = len(field[0]) + len(field[1]) + _OVERHEAD
        self._table_bytes += size
        self._table.appendleft(field)
        self._evict()

    def _resize(self, block: bytes, position: int) -> int:
        size, position = _number(block, position, 5)
        if size > self._allowed_bytes:
            raise RemoteProtocolError(f"HPACK: a table of {size} bytes, allowed are {self._allowed_bytes}")
        self._table_bytes_max = size
        self._evict()
        return position

    def _evict(self) -> None:
        table = self._table
        while self._table_bytes > self._table_bytes_max:
            name, value = table.pop()
            self._table_bytes -= len(name) + len(value) + _OVERHEAD


def _number(block: bytes, position: int, bits: int) -> tuple[int, int]:
    """Return the number whose prefix has *bits* bits, and the position behind it."""
    limit = (1 << bits) - 1
    number = block[position] & limit
    position += 1
    if number < limit:
        return number, position
    for shift in range(0, 7 * _NUMBER_OCTETS_MAX, 7):
        if position >= len(block):
            raise RemoteProtocolError("HPACK: a block ends within a number")
        octet = block[position]
        position += 1
        number += (octet & 0x7F) << shift
        if not octet & 0x80:
            return number, position
    raise RemoteProtocolError("HPACK: a number is too long")


def _text(block: bytes, position: int) -> tuple[str, int]:
    if position >= len(block):
        raise RemoteProtocolError("HPACK: a block ends before a text")
    is_huffman = block[position] & 0x80
    length, position = _number(block, position, 7)
    end = position + length
    if end > len(block):
        raise RemoteProtocolError("HPACK: a block ends within a text")
    raw = block[position:end]
    if not is_huffman:
        return raw.decode("latin-1"), end
    return (_unpacked(raw) if length <= _CACHED_BYTES_MAX else huffman.decode(raw).decode("latin-1")), end


@lru_cache(maxsize=4096)
def _unpacked(raw: bytes) -> str:
    return huffman.decode(raw).decode("latin-1")


def encode(fields: Iterable[Field]) -> bytes:
    """Return a block of *fields*, which no table keeps."""
    block = bytearray()
    for name, value in fields:
        index = _STATIC_NAMES.get(name, 0)
        if index and STATIC[index - 1] == (name, value):
            block += _encoded_number(index, 7, 0x80)
            continue
        block += _encoded_number(index, 4, 0)
        if not index:
            block += _encoded_text(name)
        block += _encoded_text(value)
    return bytes(block)


def _encoded_text(text: str) -> bytes:
    raw = text.encode("latin-1")
    return _encoded_number(len(raw), 7, 0) + raw


def _encoded_number(number: int, bits: int, pattern: int) -> bytes:
    limit = (1 << bits) - 1
    if number < limit:
        return bytes((pattern | number,))
    octets = bytearray((pattern | limit,))
    number -= limit
    while number >= 0x80:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    octets.append(number)
    return bytes(octets)
