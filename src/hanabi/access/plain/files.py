"""Files of ACL 1.0: which there are, what is in them, and the rules that they make together.

    CONF/acl/**/*.yml, *.yaml            in the order of their paths
    CONF/plain_acl.yml                   last; new accounts go here

The first file that names an account wins; global white lists add up. A file that cannot be read at the start is an
error. Later its old content stays in force, and one line says so; the same for a file that was emptied. Rules are
replaced as a whole, so that a removed address is gone at once. Called from threads: nothing here waits for a loop.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from hanabi.access.plain import changes
from hanabi.access.plain.account import Account, Rules
from hanabi.access.plain.document import ACCOUNTS_MAX, Document, read_document
from hanabi.access.plain.white_list import WhiteList
from hanabi.access.plain.yaml_text import write_yaml
from hanabi.durable_table import replace_file
from hanabi.errors import ConfigError
from hanabi.wire.bodies.topics import DataVersion
from hanabi.wire.headers.acl import CreateAccessConfigHeader

FILE_BYTES_MAX: Final = 16 << 20
FILES_MAX: Final = 1_000
REFRESH_SECONDS: Final = 2.0  # Apache's broker looks every 5 s
_PRIVATE: Final = 0o600

logger = logging.getLogger(__name__)

Fingerprint = tuple[int, int, int]


class _Read(NamedTuple):
    """One file as it was read: its state on disk, its content, and the raw form of that."""

    fingerprint: Fingerprint | None  # None: to be read again
    document: Document
    raw: dict[str, Any]


class PlainFiles:
    """The files of one folder, and the rules in force. `generation` counts the changes of these."""

    def __init__(self, conf: Path, *, now_ms: Callable[[], int], allows_open_list: bool = False) -> None:
        """*allows_open_list*: a white list with `*` turns the checks off, so it must be meant."""
        self.folder, self.default_file = conf / "acl", conf / "plain_acl.yml"
        self._now_ms, self._allows_open_list = now_ms, allows_open_list
        self._read: dict[Path, _Read] = {}
        self._complaints: dict[Path, str] = {}  # the last of each file, so that each is logged once
        self._changing = threading.Lock()
        self.rules = Rules()
        self.generation = 0

    def load(self) -> None:
        """Read all files. Raise ConfigError with the file and the reason if one is wrong."""
        with self._changing:
            self._read = {path: self._read_file(path) for path in self._paths()}
            self._use()
        _report(self.rules)

    def refresh(self) -> None:
        """Read files that changed. What is wrong with one is logged once, and its old content stays in force."""
        with self._changing:
            before = self._read
            try:
                found = {path: self._refreshed(path) for path in self._paths()}
                self._read = {path: read for path, read in found.items() if read is not None}
                if self._read != before:
                    self._use()
            except ConfigError as error:
                self._read = before
                self._complain(self.folder, str(error))

    def version(self) -> DataVersion:
        """Return the version of the default file."""
        read = self._read.get(self.default_file)
        return read.document.version if read is not None else DataVersion()

    def versions(self) -> dict[str, DataVersion]:
        """Return the version of each file by its path."""
        return {str(path): read.document.version for path, read in self._read.items()}

    # Changes over the wire

    def update_account(self, asked: CreateAccessConfigHeader) -> None:
        """Make or change an account, in the file that has it or in the default file."""
        self._change(
            self._file_of(asked.access_key) or self.default_file,
            lambda raw: changes.with_account(raw, asked, self._now_ms()),
        )

    def delete_account(self, access_key: str) -> bool:
        """Delete an account; return False if there is none."""
        path = self._file_of(access_key)
        if path is None:
            return False
        self._change(path, lambda raw: changes.without_account(raw, access_key, self._now_ms()))
        return True

    def update_white_list(self, addresses: list[str], path: str | None) -> bool:
        """Replace the global white list of a file that is loaded, the default file if *path* is not given."""
        known = {str(each): each for each in (*self._read, self.default_file)}
        file = known.get(path or str(self.default_file))
        if file is None:
            return False
        self._change(file, lambda raw: changes.with_white_list(raw, addresses, self._now_ms()))
        return True

    def _file_of(self, access_key: str) -> Path | None:
        return next(
            (
                path
                for path, read in self._read.items()
                if any(each.access_key == access_key for each in read.document.accounts)
            ),
            None,
        )

    def _change(self, path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Change the newest content of a file, check it, write it, and use it."""
        with self._changing:
            raw = self._read_file(path).raw if path.exists() else {}
            text = write_yaml(changes.native(change(raw)))
            document, raw = read_document(text, str(path))
            before = self._read
            self._read = {**before, path: _Read(None, document, raw)}
            try:
                rules = self._joined()
                _write(path, text)
            except (ConfigError, OSError) as error:
                self._read = before
                raise ConfigError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
            self._read[path] = _Read(_fingerprint(path), document, raw)
            self._replace(rules)

    # Reading

    def _paths(self) -> list[Path]:
        found = (path for path in self.folder.rglob("*") if path.suffix in (".yml", ".yaml") and path.is_file())
        paths = sorted(path for path in found if path != self.default_file)
        if len(paths) > FILES_MAX:
            raise ConfigError(f"{self.folder}: {len(paths)} files, at most {FILES_MAX}")
        return [*paths, self.default_file] if self.default_file.exists() else paths

    def _read_file(self, path: Path) -> _Read:
        try:
            fingerprint = _fingerprint(path)
            if fingerprint[1] > FILE_BYTES_MAX:
                raise ConfigError(f"{path}: {fingerprint[1]} bytes, at most {FILE_BYTES_MAX}")
            return _Read(fingerprint, *read_document(path.read_bytes(), str(path)))
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror or error}") from error

    def _refreshed(self, path: Path) -> _Read | None:
        """Return the file as it is now; as it was, if it did not change or is wrong; None if it never was right."""
        known = self._read.get(path)
        try:
            if known is not None and known.fingerprint == _fingerprint(path):
                return known
            read = self._read_file(path)
        except (ConfigError, OSError) as error:
            self._complain(path, str(error))
            return known
        if known is not None and known.raw and not read.raw:
            self._complain(path, f"{path}: the file was emptied")
            return known
        self._complaints.pop(path, None)
        return read

    def _complain(self, path: Path, reason: str) -> None:
        if self._complaints.get(path) != reason:
            self._complaints[path] = reason
            logger.error("%s; its last good rules stay in force until it is repaired", reason)

    # The rules of all files

    def _use(self) -> None:
        self._replace(self._joined())

    def _replace(self, rules: Rules) -> None:
        self.rules = rules
        self.generation += 1
        logger.info(
            "access control: %d accounts, %d white-listed patterns in %d files",
            len(rules.accounts),
            len(rules.white_list.patterns),
            len(self._read),
        )

    def _joined(self) -> Rules:
        accounts: dict[str, Account] = {}
        for path, read in self._read.items():
            for account in read.document.accounts:
                if accounts.setdefault(account.access_key, account) is not account:
                    logger.warning("%s: account %s is defined before; this one is ignored", path, account.access_key)
        if len(accounts) > ACCOUNTS_MAX:
            raise ConfigError(f"{len(accounts)} accounts, at most {ACCOUNTS_MAX}")
        rules = Rules(accounts, WhiteList(each for read in self._read.values() for each in read.document.white_list))
        if not self._allows_open_list:
            _refuse_open_lists(rules)
        return rules


async def keep_refreshing(files: PlainFiles) -> None:
    """Read files that changed, again and again, without blocking the loop."""
    while True:
        await asyncio.sleep(REFRESH_SECONDS)
        await asyncio.to_thread(files.refresh)


def _refuse_open_lists(rules: Rules) -> None:
    owners = ["globalWhiteRemoteAddresses"] if rules.white_list.is_open else []
    owners += [f"whiteRemoteAddress of {key}" for key, account in rules.accounts.items() if account.white_list.is_open]
    if owners:
        raise ConfigError(
            f"{owners[0]} matches each address, which needs no signature then:"
            " name the addresses, or set aclOpenWhiteList=true in broker.conf"
        )


def _report(rules: Rules) -> None:
    """Log what an operator should know of the rules at the start."""
    patterns = [*rules.white_list.patterns, *_own_patterns(rules.accounts)]
    if patterns:
        logger.warning("requests from these addresses are not checked: %s", ", ".join(patterns[:20]))
    if samples := [key for key, account in rules.accounts.items() if account.is_sample]:
        logger.warning("published sample secrets, valid on this machine only: %s", ", ".join(samples[:20]))
    if not rules.accounts and not patterns:
        logger.warning("access control is on and there are no accounts: all requests are refused")


def _own_patterns(accounts: Mapping[str, Account]) -> list[str]:
    return [
        f"{pattern} (as {key})" for key, each in accounts.items() for pattern in each.white_list.patterns if pattern
    ]


def _fingerprint(path: Path) -> Fingerprint:
    state = path.stat()
    return state.st_mtime_ns, state.st_size, state.st_ino


def _write(path: Path, text: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else _PRIVATE
    replace_file(path, text, mode)
