"""Typed values of a source's options. An error names the option in one sentence.

Spark passes strings, and names in lower case; users write names as in the documentation.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from hanabi.errors import ConfigError
from hanabi.spark.shared.suggestions import did_you_mean

_NO_OPTIONS = {  # options of clients that Spark does not need
    "namespace": "names carry their namespace here: write the topic as shop%Orders, and the group as shop%billing",
    "pushdown": "Spark 4.3 uses the filters of one query for the next one on the same frame, which gives wrong rows."
    " Use options instead, such as subscribe, startingTimestamp and tags",
}
_TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


class OptionValues:
    """The options of one source."""

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...], source: str) -> None:
        """Raise ConfigError for a name that is not *known*."""
        self._given = {name.lower(): value for name, value in given.items()}
        for name in given:
            if name.lower() not in {each.lower() for each in known}:
                why = _NO_OPTIONS.get(name.lower())
                raise ConfigError(f"{source} has no option {name!r}{f': {why}' if why else did_you_mean(name, known)}")

    def text(self, name: str) -> str | None:
        """Return the given value, None if the option is not set."""
        return self._given.get(name.lower()) or None

    def choice(self, name: str, *choices: str) -> str:
        """Return one of *choices*; the first is the default."""
        value = (self.text(name) or choices[0]).lower()
        if value not in choices:
            raise ConfigError(f"option {name}={value!r}: must be one of {', '.join(choices)}")
        return value

    def truth(self, name: str, *, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in _TRUTH:
            raise ConfigError(f"option {name}={value!r}: must be true or false")
        return _TRUTH[value.lower()]

    def number(self, name: str, default: int, *, least: int = 1) -> int:
        value = self.text(name)
        if value is None:
            return default
        if not value.strip().isdecimal() or int(value) < least:
            raise ConfigError(f"option {name}={value!r}: must be a whole number, at least {least}")
        return int(value)

    def words(self, name: str, separator: str = ",") -> frozenset[str] | None:
        """Return a list of words, stripped of blanks."""
        value = self.text(name)
        if value is None:
            return None
        words = frozenset(word.strip() for word in value.split(separator)) - {""}
        if not words:
            raise ConfigError(f"option {name}={value!r}: names nothing")
        return words

    def time_ms(self, name: str) -> int | None:
        """Return a time in milliseconds since 1970. Accepts milliseconds or ISO 8601 (UTC unless it names a zone)."""
        value = self.text(name)
        if value is None:
            return None
        if value.strip().isdecimal():
            return int(value)
        try:
            given = datetime.fromisoformat(value.strip())
        except ValueError:
            raise ConfigError(
                f"option {name}={value!r}: must be milliseconds since 1970 or a time such as 2026-11-15T06:45:00"
            ) from None
        given = given if given.tzinfo else given.replace(tzinfo=UTC)
        return round(given.timestamp() * 1000)

    def json_object(self, name: str) -> dict[str, Any] | None:
        value = self.text(name)
        if value is None:
            return None
        try:
            given = json.loads(value)
        except ValueError as error:
            raise ConfigError(f"option {name} is not JSON: {error}") from None
        if not isinstance(given, dict):
            raise ConfigError(f"option {name}={value!r}: must be a JSON object")
        return given
