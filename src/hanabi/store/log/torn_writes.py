"""Marks that distinguish long runs of zeros in properties from a torn write.

The CRC of a record covers its body alone. A torn write leaves zeros in the properties: up to their end, or as
long as a sector. A client may send such properties too, so the commit log marks these when it encodes them:

    name 0x01 value with a NUL at the end 0x02                          a separator: the end is no zero
    name 0x01 value with 512 NUL bytes in a row 0x02 1c291ca3           a seal: CRC-32 of all before it

Both add no pair: every client skips an item that has no 0x01. The largest properties have no room for a seal. They
count as whole: `Segment.append` publishes a large record's size last, so a killed process leaves no torn one.
"""

from typing import Final

from hanabi.wire.message.crc import crc32
from hanabi.wire.message.properties import PROPERTIES_BYTES_MAX

ZERO_RUN: Final = bytes(512)
_SEPARATOR: Final = b"\x02"
SEAL_BYTES: Final = 9
SEALABLE_BYTES_MAX: Final = PROPERTIES_BYTES_MAX - SEAL_BYTES


def mark_zeros(properties: bytes) -> bytes:
    """Return *properties* in a form that `looks_torn` accepts: the same pairs, within the same limit."""
    if ZERO_RUN in properties:
        return properties if len(properties) > SEALABLE_BYTES_MAX or _is_sealed(properties) else _seal(properties)
    if properties.endswith(b"\0") and len(properties) < PROPERTIES_BYTES_MAX:
        return properties + _SEPARATOR
    return properties


def looks_torn(properties: bytes) -> bool:
    """Return whether *properties* have zeros that `mark_zeros` would have marked."""
    if ZERO_RUN in properties:
        return len(properties) <= SEALABLE_BYTES_MAX and not _is_sealed(properties)
    return properties.endswith(b"\0") and len(properties) < PROPERTIES_BYTES_MAX


def _seal(properties: bytes) -> bytes:
    return b"%b\x02%08x" % (properties, crc32(properties))


def _is_sealed(properties: bytes) -> bool:
    return _seal(properties[:-SEAL_BYTES]) == properties
