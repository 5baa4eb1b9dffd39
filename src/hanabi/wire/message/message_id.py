"""The two kinds of message ids, both written as hexadecimal digits.

    Offset id, made by the broker          host (8 bytes, IPv6 20) │ log offset i64               32 or 56 digits
    Unique id, made by the producer        address (4 bytes, IPv6 16) │ process id u16 │ loader u32
                                           │ milliseconds since the month began u32 │ counter u16  32 or 56 digits

"Loader" is the hash of a Java class loader: it distinguishes two producers that share a process id, as in
two containers. Agrees with Java's MessageDecoder.createMessageId and MessageClientIDSetter. The clock is passed in.
"""

import itertools
import struct
from collections.abc import Callable
from typing import NamedTuple

from hanabi.errors import MQError, RemoteProtocolError
from hanabi.message import Address
from hanabi.wire.message.hosts import decode_host, format_ip

_I64 = struct.Struct(">q")
_UNIQUE_TAIL = struct.Struct(">HIIH")
_ID_BYTES = (16, 28)
_DAY_MS = 86_400_000
_CLOCK_STEP_BACK_MS_MAX = 1_000_000


class OffsetId(NamedTuple):
    """The place of a message: the broker's host, as a record carries it, and the offset in its commit log."""

    store_host: bytes
    log_offset: int

    @property
    def address(self) -> Address:
        return decode_host(self.store_host)


def encode_offset_id(store_host: bytes, log_offset: int) -> str:
    """Return the id of the message at *log_offset* in the log of the broker at *store_host* (8 or 20 bytes)."""
    return (store_host + _I64.pack(log_offset)).hex().upper()


def decode_offset_id(text: str) -> OffsetId:
    raw = _id_bytes(text)
    return OffsetId(raw[:-8], _I64.unpack(raw[-8:])[0])


def _id_bytes(text: str) -> bytes:
    # fromhex() alone would skip spaces
    if len(text) not in (2 * size for size in _ID_BYTES) or not text.isalnum():
        raise RemoteProtocolError(f"message id of {len(text)} characters, must be 32 or 56 hexadecimal digits")
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise RemoteProtocolError(f"message id {text!r}: {error}") from error


class UniqueId(NamedTuple):
    """The parts of an id that a producer made."""

    ip: str
    process_id: int
    loader_hash: int
    since_month_ms: int
    counter: int

    def made_at_ms(self, now_ms: int, utc_offset_ms: int = 0) -> int:
        """Return the approximate creation time: in this month, or in the last if that would lie in the future.

        The id does not say which month, nor in which time zone it began.
        """
        month_start_ms, _ = month_of(now_ms, utc_offset_ms)
        if month_start_ms + self.since_month_ms > now_ms:
            month_start_ms, _ = month_of(month_start_ms - 1, utc_offset_ms)
        return month_start_ms + self.since_month_ms


def decode_unique_id(text: str) -> UniqueId:
    raw = _id_bytes(text)
    return UniqueId(format_ip(raw[: -_UNIQUE_TAIL.size]), *_UNIQUE_TAIL.unpack(raw[-_UNIQUE_TAIL.size :]))


class UniqueIds:
    """Makes the ids of one producer process. May be called from any thread: no counter value is returned twice.

    *ip* is 4 or 16 bytes. *now_ms* is the clock. Months begin as they do *utc_offset_ms* east of Greenwich.
    """

    def __init__(
        self, now_ms: Callable[[], int], *, ip: bytes, process_id: int, loader_hash: int, utc_offset_ms: int = 0
    ) -> None:
        if len(ip) not in (4, 16):
            raise MQError(f"an address has 4 or 16 bytes, not {len(ip)}")
        self._now_ms = now_ms
        self._utc_offset_ms = utc_offset_ms
        self._prefix = f"{ip.hex().upper()}{process_id & 0xFFFF:04X}{loader_hash & 0xFFFF_FFFF:08X}"
        self._month = month_of(now_ms(), utc_offset_ms)
        self._counter = itertools.count()  # next() on it is one step of the interpreter, so no lock is needed

    def make(self) -> str:
        now_ms = self._now_ms()
        start_ms, next_start_ms = self._month
        if now_ms >= next_start_ms or now_ms <= start_ms - _CLOCK_STEP_BACK_MS_MAX:
            start_ms, _ = self._month = month_of(now_ms, self._utc_offset_ms)
        since_month_ms = max(now_ms - start_ms, 0)  # a clock set back a little over midnight
        return f"{self._prefix}{since_month_ms:08X}{next(self._counter) & 0xFFFF:04X}"


def month_of(now_ms: int, utc_offset_ms: int = 0) -> tuple[int, int]:
    """Return the beginnings of the month of *now_ms* and of the next one, in milliseconds since 1970."""
    # Years that begin in March put the leap day last; era: the 400 years after which the calendar repeats.
    era, day_of_era = divmod((now_ms + utc_offset_ms) // _DAY_MS + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    start_day_of_year = (153 * month + 2) // 5
    if month < 11:
        next_day_of_year = (153 * (month + 1) + 2) // 5
    else:  # the month that began last, February, ends with the year
        following = year_of_era + 1
        next_day_of_year = 365 + (following % 4 == 0 and (following % 100 != 0 or following % 400 == 0))
    year_start_day = era * 146_097 + day_of_era - day_of_year - 719_468
    return (
        (year_start_day + start_day_of_year) * _DAY_MS - utc_offset_ms,
        (year_start_day + next_day_of_year) * _DAY_MS - utc_offset_ms,
    )
