"""Compiled SQL92 expression: `compile_sql(text).matches(properties)`."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from hanabi.broker.filters.sql.evaluator import compile_node
from hanabi.broker.filters.sql.parser import parse
from hanabi.wire.message.properties import decode_properties, find_property

_CACHED_CHARACTERS_MAX: Final = 4096  # longer ones are compiled each time, so that they do not fill memory
_CACHED_MAX: Final = 256
_SEARCHED_NAMES_MAX: Final = 8  # decoding all properties costs as much as searching for this many


class CompiledSql:
    """Immutable; see `compile_sql`. A message matches when the expression is true: false and unknown are no match."""

    __slots__ = ("_run", "_searched", "ignored", "names", "text")

    def __init__(self, text: str) -> None:
        node, end = parse(text)
        self.text = text
        self.ignored = text[end:]  # text behind the expression; usually empty
        self.names, self._run = compile_node(node)
        self._searched = [(b"\x02" + name.encode() + b"\x01", name.encode()) for name in self.names]

    def evaluate(self, properties: Mapping[str, str]) -> bool | None:
        """Return True, False, or None for unknown; raise ValueError where Java throws."""
        result: bool | None = self._run([properties.get(name) for name in self.names])
        return result

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Return whether a message with *properties* matches."""
        try:
            return self._run([properties.get(name) for name in self.names]) is True
        except ValueError:
            return False

    def matches_raw(self, raw: bytes) -> bool:
        """Evaluate undecoded properties as `matches` does; searches only the named ones."""
        if len(self._searched) > _SEARCHED_NAMES_MAX:
            return self.matches(decode_properties(raw))
        bounded = b"\x02" + raw + b"\x02"
        values: list[str | None] = []
        for bounded_name, name in self._searched:
            at = bounded.rfind(bounded_name)
            if at < 0:
                values.append(None)
                continue
            start = at + len(bounded_name)
            value = bounded[start : bounded.index(b"\x02", start)]
            # An empty value does not count, but a further property of this name may.
            values.append(value.decode("utf-8", "replace") if value else find_property(raw, name))
        try:
            return self._run(values) is True
        except ValueError:
            return False


def compile_sql(text: str) -> CompiledSql:
    """Compile *text*; raise SubscriptionParseFailed with the reason and the position."""
    return _cached(text) if len(text) <= _CACHED_CHARACTERS_MAX else CompiledSql(text)


_cached = lru_cache(maxsize=_CACHED_MAX)(CompiledSql)
