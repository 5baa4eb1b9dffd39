"""Address patterns of white lists, as plain_acl.yml has them. Pure.

    *   *.*.*.*   *:*:*:*:*:*:*:*          each address
    1.2.3.4   ::1                          one
    1.2.3.4,::1                            several
    1.2.3.{4,5}   fe80::{1,2}              several that differ in the last part
    1.2.3.*   1.2.3.4-90   1.2.4-90.*      the first wildcard or range decides; what follows it is not compared
    1:2::*   1:2::1-ff   1:2::1-ff:*       IPv6: `*` only last, a range last or before the last `*`
    (blank)                                none

Agrees with Java's RemoteAddressStrategyFactory (4.9.8), but for what follows `::` directly: there, 1:2::1-ff looks at
the fourth part and never matches 1:2::5. Here the wildcard or range is the last part, as it is written.
"""

from collections.abc import Callable, Iterable
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

from hanabi.access.address import Address
from hanabi.errors import ConfigError

_EVERY: Final = ("*", "*.*.*.*", "*:*:*:*:*:*:*:*")
ADDRESSES_MAX: Final = 1_000  # of one pattern

Matches = Callable[[Address], bool]


class _Range(NamedTuple):
    """Addresses of one version with these first parts, whose next part lies between two numbers."""

    version: int
    head: tuple[int, ...]
    start: int
    end: int

    def matches(self, address: Address) -> bool:
        if address.version != self.version:
            return False
        parts = _parts(address)
        place = len(self.head)
        return parts[:place] == self.head and self.start <= parts[place] <= self.end


class WhiteList:
    """The patterns of one list, read once. Patterns that match each address are kept as such: `is_open`."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(pattern.strip() for pattern in patterns)
        self.is_open = any(pattern in _EVERY for pattern in self.patterns)
        self._single: set[Address] = set()
        self._ranges: list[_Range] = []
        for pattern in self.patterns:
            if pattern and pattern not in _EVERY:
                self._read(pattern)

    def matches(self, address: Address | None) -> bool:
        """Return whether a pattern matches. A peer without an IP address is matched by an open list only."""
        if self.is_open:
            return True
        if address is None:
            return False
        return address in self._single or any(each.matches(address) for each in self._ranges)

    def _read(self, pattern: str) -> None:
        if "{" in pattern or "," in pattern:
            self._single.update(_address(text, pattern) for text in _listed(pattern))
        elif "*" in pattern or "-" in pattern:
            self._ranges.append(_range_6(pattern) if ":" in pattern else _range_4(pattern))
        else:
            self._single.add(_address(pattern, pattern))


def _parts(address: Address) -> tuple[int, ...]:
    if isinstance(address, IPv6Address):
        return tuple(int.from_bytes(address.packed[at : at + 2], "big") for at in range(0, 16, 2))
    return tuple(address.packed)


def _listed(pattern: str) -> list[str]:
    """Return the addresses of `a,b,c` or of `head{x,y}`."""
    head, brace, rest = pattern.partition("{")
    if brace and (not rest.endswith("}") or "{" in rest or "," in head or not head.endswith((".", ":"))):
        raise _bad(pattern, "braces stand for the last part of one address")
    last_parts = rest[:-1].split(",") if brace else pattern.split(",")
    if len(last_parts) > ADDRESSES_MAX:
        raise _bad(pattern, f"{len(last_parts)} addresses, at most {ADDRESSES_MAX}")
    return [(head if brace else "") + part.strip() for part in last_parts if part.strip()]


def _range_4(pattern: str) -> _Range:
    texts = [text.strip() for text in pattern.split(".")]
    if len(texts) != 4:
        raise _bad(pattern, "an IPv4 pattern has four parts")
    bounds = [_bounds(text, pattern, 255, 10) for text in texts]  # also what is not compared must be legible
    place = next(index for index, (start, end) in enumerate(bounds) if _is_open_part(texts[index]))
    if place == 0:
        raise _bad(pattern, "the first part must be a number")
    return _Range(4, tuple(start for start, _ in bounds[:place]), *bounds[place])


def _range_6(pattern: str) -> _Range:
    texts = pattern.split(":")
    tail = len(texts) - 1 if "*" not in pattern or "-" not in pattern else len(texts) - 2  # of the deciding part
    if any(_is_open_part(text) for text in texts[:tail]) or not _is_open_part(texts[tail]) or tail == 0:
        raise _bad(pattern, "in IPv6 `*` is the last part, and a range the last or the one before `*`")
    if tail + 1 < len(texts) and texts[tail + 1] != "*":
        raise _bad(pattern, "only `*` follows a range")
    head = ":".join(texts[:tail])
    if "::" in pattern:  # fills up, so that the deciding part has its place counted from the end
        after = len(texts) - tail
        zeros = ":".join(["0"] * after)
        filled = _address(f"{head}:{zeros}", pattern)
        return _Range(6, _parts(filled)[: 8 - after], *_bounds(texts[tail], pattern, 0xFFFF, 16))
    if len(texts) > 8:
        raise _bad(pattern, "an IPv6 pattern has at most eight parts")
    numbers = tuple(_bounds(text, pattern, 0xFFFF, 16)[0] for text in texts[:tail])
    return _Range(6, numbers, *_bounds(texts[tail], pattern, 0xFFFF, 16))


def _is_open_part(text: str) -> bool:
    return text == "*" or "-" in text


def _bounds(text: str, pattern: str, largest: int, base: int) -> tuple[int, int]:
    """Return the numbers between which a part lies: 0 and *largest* for `*`, twice the same for a number."""
    if text == "*":
        return 0, largest
    first, dash, last = text.partition("-")
    start = _number(first, pattern, largest, base)
    end = _number(last, pattern, largest, base) if dash else start
    if start > end:
        raise _bad(pattern, f"{start} is more than {end}")
    return start, end


def _number(text: str, pattern: str, largest: int, base: int) -> int:
    digits = "0123456789abcdef"[:base]
    if not 1 <= len(text) <= 4 or not set(text.lower()) <= set(digits) or int(text, base) > largest:
        raise _bad(pattern, f"{text!r} is not a part of an address")
    return int(text, base)


def _address(text: str, pattern: str) -> Address:
    try:
        address = ip_address(text)
    except ValueError:
        raise _bad(pattern, f"{text!r} is not an address") from None
    if "%" in text:
        raise _bad(pattern, f"{text!r} names a network interface, which is not compared")
    return address


def _bad(pattern: str, why: str) -> ConfigError:
    return ConfigError(f"address pattern {pattern[:200]!r}: {why}")
