"""Filter rules: SQL92 with functions on texts, and values of JSON bodies. `compile_rule(text).matches_record(...)`.

They take the place of the class filters of RocketMQ 3: a consumer ships what it wants to filter by, and the server
evaluates it. Apache's servers compiled and ran the consumer's Java source; here it is an expression, whose work for one
message is bounded. Limits are those of SQL92 expressions, and CALLS_MAX functions.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from hanabi.broker.filters.sql.evaluator import compile_node
from hanabi.broker.filters.sql.functions import BODY_BYTES_MAX, Argument, Call, Subject, compile_call
from hanabi.broker.filters.sql.nodes import Property
from hanabi.broker.filters.sql.parser import parse
from hanabi.errors import MQError, RemoteProtocolError
from hanabi.wire.message.compression import decompress
from hanabi.wire.message.properties import decode_properties
from hanabi.wire.message.record import decode_record

CALLS_MAX: Final = 32
_CACHED_CHARACTERS_MAX: Final = 4096
_CACHED_MAX: Final = 256


class CompiledRule:
    """Immutable; see `compile_rule`. A message matches when the rule is true: false and unknown are no match."""

    __slots__ = ("_calls", "_run", "ignored", "names", "text")

    def __init__(self, text: str) -> None:
        self._calls: dict[str, Call] = {}
        node, end = parse(text, self._call)
        self.text, self.ignored = text, text[end:]
        self.names, self._run = compile_node(node)

    def _call(self, name: str, arguments: Sequence[Argument]) -> Property:
        if len(self._calls) >= CALLS_MAX:
            raise ValueError(f"more than {CALLS_MAX} functions")
        made = Property(f"\x01{len(self._calls)}")  # no property has such a name
        self._calls[made.name] = compile_call(name.upper(), arguments, self._calls)
        return made

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Return whether a message with *properties* and without a body matches."""
        return self._matches(properties, lambda: None)

    def matches_raw(self, raw: bytes) -> bool:
        """Evaluate undecoded properties as `matches` does."""
        return self.matches(decode_properties(raw))

    def matches_record(self, view: memoryview) -> bool:
        """Return whether a stored message matches. A damaged one has neither properties nor a body."""
        try:
            record = decode_record(view, check_crc=False)
        except RemoteProtocolError:
            return self.matches({})

        def body() -> bytes | None:
            if len(record.body) > BODY_BYTES_MAX:
                return None
            try:
                return decompress(bytes(record.body), record.sys_flag, BODY_BYTES_MAX)
            except MQError:  # too large when unpacked, damaged, or of a library that is not installed
                return None

        return self._matches(decode_properties(record.properties), body)

    def _matches(self, properties: Mapping[str, str], body: Callable[[], bytes | None]) -> bool:
        calls, subject = self._calls, Subject(properties, body)
        try:
            values = [
                properties.get(name) if (call := calls.get(name)) is None else call(subject) for name in self.names
            ]
            return self._run(values) is True
        except ValueError:
            return False


def compile_rule(text: str) -> CompiledRule:
    """Compile *text*; raise SubscriptionParseFailed with the reason and the position."""
    return _cached(text) if len(text) <= _CACHED_CHARACTERS_MAX else CompiledRule(text)


_cached = lru_cache(maxsize=_CACHED_MAX)(CompiledRule)
