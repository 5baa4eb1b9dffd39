"""Log lines of refusals: one for each address and reason, and a count, so that an attack does not fill the log."""

import logging
from collections.abc import Callable
from typing import Final

from hanabi.access.guard import Source
from hanabi.wire.codes import request_name
from hanabi.wire.command import Command

_SILENT_SECONDS: Final = 60.0
_KNOWN_MAX: Final = 1_000
_SWEEP_SECONDS: Final = 1.0

logger = logging.getLogger(__name__)


class Refusals:
    """Refusals of one server. `count` is all of them; *clock* is in seconds and never goes back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._told: dict[tuple[str, str], float] = {}  # when the line of an address and a reason was written
        self._swept = -_SWEEP_SECONDS
        self.count = 0

    def refused(self, _header: object, request: Command, source: Source, reason: str) -> None:
        """Count a refusal, and log it unless the same one was logged a short time ago."""
        self.count += 1
        now, key = self._clock(), (source.host, reason)
        if now - self._told.get(key, now - _SILENT_SECONDS) < _SILENT_SECONDS:
            return
        if len(self._told) >= _KNOWN_MAX:
            if now - self._swept < _SWEEP_SECONDS:  # a sweep costs as much as many requests
                return
            self._swept = now
            self._told = {each: at for each, at in self._told.items() if now - at < _SILENT_SECONDS}
            if len(self._told) >= _KNOWN_MAX:
                return
        self._told[key] = now
        logger.warning("%s: %s refused: %s", source.host, request_name(request.code), reason)
