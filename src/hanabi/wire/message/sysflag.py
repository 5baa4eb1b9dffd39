"""The bits of a message's system flag, as in Java's MessageSysFlag.

    bit  10 9 8       7            6            5           4          3 2            1            0
         compression  inner batch  need unwrap  store host  born host  transaction    multi-tags   compressed
         type                                   is IPv6     is IPv6    type

Plain numbers, not an enum: every message is tested for some of them, and an `IntFlag` makes an object each time.
"""

from typing import Final

COMPRESSED: Final = 1
MULTI_TAGS: Final = 1 << 1

TRANSACTION_NONE: Final = 0
TRANSACTION_PREPARED: Final = 1 << 2
TRANSACTION_COMMIT: Final = 2 << 2
TRANSACTION_ROLLBACK: Final = 3 << 2
_TRANSACTION_MASK: Final = 3 << 2

BORN_HOST_V6: Final = 1 << 4
STORE_HOST_V6: Final = 1 << 5
HOSTS_V6: Final = BORN_HOST_V6 | STORE_HOST_V6

NEED_UNWRAP: Final = 1 << 6  # the body is a batch that the consumer takes apart
INNER_BATCH: Final = 1 << 7  # the body is a batch that the store counts as several messages

_COMPRESSION_SHIFT: Final = 8
_COMPRESSION_MASK: Final = 7 << _COMPRESSION_SHIFT


def transaction_type(sys_flag: int) -> int:
    """Return one of the four `TRANSACTION_...` values."""
    return sys_flag & _TRANSACTION_MASK


def with_transaction_type(sys_flag: int, transaction: int) -> int:
    """Return *sys_flag* with its transaction type replaced."""
    return sys_flag & ~_TRANSACTION_MASK | transaction


def compression_number(sys_flag: int) -> int:
    """Return the number of a `CompressionType`; 0 from clients that knew only zlib."""
    return (sys_flag & _COMPRESSION_MASK) >> _COMPRESSION_SHIFT


def with_compression(sys_flag: int, number: int) -> int:
    """Return *sys_flag* with the bits of the compression type *number*."""
    return sys_flag & ~_COMPRESSION_MASK | number << _COMPRESSION_SHIFT | COMPRESSED
