"""The settings in force, and the few of them that may be changed over the wire.

Every peer that reaches the port can ask for a change, so only harmless settings may be changed: never a path,
never the list itself (CVE-2023-37582 wrote files of the attacker's choice that way). Changes are kept in a file of
their own, which only this module writes, and are in force again after a restart.
"""

import asyncio
import logging
from pathlib import Path
from typing import NamedTuple

from hanabi.durable_table import DurableTable
from hanabi.errors import NoPermission
from hanabi.namesrv.config import NamesrvConfig, as_properties
from hanabi.remoting.started_threads import in_own_thread
from hanabi.wire.java_properties import decode_properties, format_properties
from hanabi.wire.settings_text import shortened, with_properties

CHANGEABLE = frozenset({"orderMessageEnable", "productEnvName"})

logger = logging.getLogger(__name__)


class _Change(NamedTuple):
    asked: dict[str, str]
    kept: dict[str, str]  # all that was ever changed
    config: NamesrvConfig


class Settings:
    """The configuration that the server was started with, and over it what was changed since."""

    def __init__(self, config: NamesrvConfig, path: Path) -> None:
        self._file = DurableTable(path, encode=_encode, decode=decode_properties)
        self._file.check_writable()
        self._changeable = CHANGEABLE - set(config.config_black_list.split(";"))
        kept = self._file.load() or {}
        self._changed = {key: value for key, value in kept.items() if key in self._changeable}
        for key in kept:
            if key in self._changed:
                logger.info("%s=%s, changed at run time and kept in %s", key, kept[key], path)
            else:
                logger.warning("%s: %s may not be changed at run time and is not read from here", path, key)
        self.current = with_properties(config, self._changed)
        self._text: bytes | None = None
        self._changing = asyncio.Lock()

    async def change(self, text: bytes) -> None:
        """Put the properties in *text* into force, all or none, and keep them. The loop does not wait for the disk."""
        await asyncio.shield(self._change(text))  # in the file and in force, or neither

    async def _change(self, text: bytes) -> None:
        async with self._changing:
            change = self._checked(text)
            await in_own_thread(self._file.save, change.kept)
            self._use(change)

    def update(self, text: bytes) -> None:
        """Do as `change`, and block for the disk."""
        change = self._checked(text)
        self._file.save(change.kept)
        self._use(change)

    def _checked(self, text: bytes) -> "_Change":
        asked = decode_properties(text)
        for key in asked:
            if key not in self._changeable:
                allowed = ", ".join(sorted(self._changeable)) or "nothing"
                raise NoPermission(f"Can not update config {shortened(key)}: at run time only {allowed} may be changed")
        kept = {**self._changed, **{key: value.strip() for key, value in asked.items()}}
        return _Change(asked, kept, with_properties(self.current, asked))

    def _use(self, change: "_Change") -> None:
        self.current, self._changed, self._text = change.config, change.kept, None
        logger.info("settings changed: %s", change.asked)

    def text(self) -> bytes:
        """Return all settings in force as a properties file, encoded once per change."""
        if self._text is None:
            self._text = _encode(as_properties(self.current))
        return self._text


def stored_changes(path: Path, config: NamesrvConfig) -> dict[str, str]:
    """Return the settings that were changed at run time, from the file at *path*."""
    kept = DurableTable(path, encode=_encode, decode=decode_properties).load() or {}
    changeable = CHANGEABLE - set(config.config_black_list.split(";"))
    return {key: value for key, value in kept.items() if key in changeable}


def _encode(properties: dict[str, str]) -> bytes:
    return format_properties(properties).encode()
