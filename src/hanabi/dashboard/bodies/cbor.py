"""CBOR (RFC 8949) to values of JSON. Pure. Bounded in depth and in size; raises ValueError for anything else."""

import struct
from typing import Any, Final

DEPTH_MAX: Final = 64
ITEMS_MAX: Final = 100_000
_BREAK: Final = object()
_SIMPLE: Final = {20: False, 21: True, 22: None, 23: None}
_FLOATS: Final = {25: (">e", 2), 26: (">f", 4), 27: (">d", 8)}
_INDEFINITE: Final = 31


def decode(data: bytes) -> Any:
    """Return the one value in *data*."""
    reader = _Reader(data)
    value = reader.value(0)
    if value is _BREAK or reader.at != len(data):
        raise ValueError("bytes are left behind the value")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self.at, self._items = data, 0, 0

    def value(self, depth: int) -> Any:
        self._items += 1
        if depth > DEPTH_MAX or self._items > ITEMS_MAX:
            raise ValueError("nested too deeply, or too many items")
        first = self._take(1)[0]
        major, info = first >> 5, first & 31
        if major == 7:
            return self._simple(info)
        if info == _INDEFINITE:
            return self._indefinite(major, depth)
        number = self._number(info)
        if major == 0:
            return number
        if major == 1:
            return -1 - number
        if major == 2:
            return self._take(number)
        if major == 3:
            return self._take(number).decode()
        if major == 4:
            return [self._item(depth) for _ in range(self._counted(number))]
        if major == 5:
            return {_key(self._item(depth)): self._item(depth) for _ in range(self._counted(number))}
        return self._item(depth)  # a tag: its value says enough

    def _item(self, depth: int) -> Any:
        value = self.value(depth + 1)
        if value is _BREAK:
            raise ValueError("an end without a beginning")
        return value

    def _counted(self, number: int) -> int:
        if number > len(self._data) - self.at:
            raise ValueError("more items than bytes")
        return number

    def _number(self, info: int) -> int:
        if info < 24:
            return info
        if info > 27:
            raise ValueError("a length that is reserved")
        return int.from_bytes(self._take(1 << (info - 24)), "big")

    def _simple(self, info: int) -> Any:
        if info in _SIMPLE:
            return _SIMPLE[info]
        if info in _FLOATS:
            form, size = _FLOATS[info]
            return struct.unpack(form, self._take(size))[0]
        if info == _INDEFINITE:
            return _BREAK
        raise ValueError("a simple value that is reserved")

    def _indefinite(self, major: int, depth: int) -> Any:
        parts: list[Any] = []
        while (value := self.value(depth + 1)) is not _BREAK:
            parts.append(value)
        if major == 4:
            return parts
        if major == 5:
            if len(parts) % 2:
                raise ValueError("a key without a value")
            return {_key(key): value for key, value in zip(parts[::2], parts[1::2], strict=True)}
        if major in (2, 3) and all(isinstance(part, (bytes, str)[major - 2]) for part in parts):
            return b"".join(parts) if major == 2 else "".join(parts)
        raise ValueError("a kind that cannot be without a length")

    def _take(self, size: int) -> bytes:
        if size > len(self._data) - self.at:
            raise ValueError("the data ends early")
        self.at += size
        return self._data[self.at - size : self.at]


def _key(value: Any) -> str:
    return value if isinstance(value, str) else str(value)
