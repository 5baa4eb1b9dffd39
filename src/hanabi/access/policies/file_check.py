"""Check of one file of access control, without a broker: accounts of 4.9, users or policies of 5.x."""

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from hanabi.access.plain.document import Document, read_document
from hanabi.access.policies.directory import decode_acls, decode_users
from hanabi.access.policies.model import User
from hanabi.access.secret import is_sample
from hanabi.errors import ConfigError, MQError

FILE_BYTES_MAX: Final = 16 << 20
_OTHERS: Final = 0o077


class Checked(NamedTuple):
    """The number of accounts or users in a file, and what is doubtful about them."""

    users: int
    findings: list[str]


def check_file(path: Path) -> Checked:
    """Return the findings about a file; raise ConfigError if a broker could not use it."""
    try:
        mode, text = path.stat().st_mode, path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    if len(text) > FILE_BYTES_MAX:
        raise ConfigError(f"{path}: {len(text)} bytes, at most {FILE_BYTES_MAX}")
    checked = _json(path, text) if path.suffix == ".json" else _yaml(path, text)
    if mode & _OTHERS and "acls" not in path.name:
        checked.findings.append(f"other users of this machine can read its secrets: chmod 600 {path.name}")
    return checked


def _yaml(path: Path, text: bytes) -> Checked:
    with _warnings() as findings:
        document, _ = read_document(text, str(path))
    findings += _doubts(document)
    return Checked(len(document.accounts), findings)


def _doubts(document: Document) -> Iterator[str]:
    names = Counter(account.access_key for account in document.accounts)
    for name, count in names.items():
        if count > 1:
            yield f"account {name} is there {count} times: the first counts"
    for account in document.accounts:
        if account.is_sample:
            yield f"account {account.access_key} has a published sample secret: valid on the broker's machine only"
        if account.is_admin and (account.topics or account.groups):
            yield f"account {account.access_key} is an administrator, but its lists limit it"
    for pattern in document.white_list:
        if set(pattern) <= set("*.:"):
            yield f"white list {pattern}: each address skips all checks"


def _json(path: Path, text: bytes) -> Checked:
    try:
        if "acls" in path.name:
            return Checked(len(decode_acls(text)), [])
        users = decode_users(text)
    except (ValueError, MQError) as error:
        raise ConfigError(f"{path}: {error}") from error
    return Checked(len(users), [finding for name, user in users.items() for finding in _user_doubts(name, user)])


def _user_doubts(name: str, user: User) -> Iterator[str]:
    if name != user.username:
        yield f"user {user.username} is kept under the name {name}"
    if is_sample(user.password):
        yield f"user {name} has a published sample password: valid on the broker's machine only"


class _Collector(logging.Handler):
    """Keeps warnings as sentences."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.sentences: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.sentences.append(record.getMessage())


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """Collect what reading a file reports, such as unknown permission words, in place of logging it."""
    collector, logger = _Collector(), logging.getLogger("hanabi.access.plain")
    propagates = logger.propagate
    logger.addHandler(collector)
    logger.propagate = False
    try:
        yield collector.sentences
    finally:
        logger.removeHandler(collector)
        logger.propagate = propagates
