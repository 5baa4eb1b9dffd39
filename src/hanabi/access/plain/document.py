"""One file of ACL 1.0 as values: accounts, white list, version.

    globalWhiteRemoteAddresses:        accounts:
    - 10.0.0.*                         - accessKey: orders-app
    dataVersion:                         secretKey: ${ORDERS_SECRET}
    - counter: 3                         previousSecretKey: old-secret      (ours: valid during a rotation)
      timestamp: 1700000000000           topicPerms:
                                         - orders=PUB|SUB

Names and rules are Apache's (PlainAccessConfig, AclConstants). An unknown permission word means DENY, as there, and
is reported. Anything else that is wrong is an error with the account and the key, and the file counts as a whole.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hanabi.access.needs import Action
from hanabi.access.plain.account import WORDS, Account
from hanabi.access.plain.white_list import WhiteList
from hanabi.access.plain.yaml_text import read_yaml
from hanabi.access.secret import CHARACTERS_MIN, is_sample, resolved_secret
from hanabi.errors import ConfigError
from hanabi.wire.bodies.topics import DataVersion
from hanabi.wire.settings_text import shortened

ACCOUNTS_MAX: Final = 10_000
PERMISSIONS_MAX: Final = 200_000  # of all accounts of a file
_TRUE: Final = ("true", "yes", "on", "1")
_FALSE: Final = ("false", "no", "off", "0", "", "null", "~")
_BLANK: Final = ("", "null", "~")

logger = logging.getLogger(__name__)


class Document(NamedTuple):
    """The content of one file."""

    accounts: tuple[Account, ...] = ()
    white_list: tuple[str, ...] = ()
    version: DataVersion = DataVersion()


def read_document(text: bytes, path: str) -> tuple[Document, dict[str, Any]]:
    """Return the content of the file *path*, and its raw form for changes. Both are empty for a file without data."""
    raw = read_yaml(text, path)
    if raw is None or raw in _BLANK:
        return Document(), {}
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: must have keys such as accounts, not {_kind(raw)}")
    try:
        return document_of(raw), raw
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def document_of(raw: Mapping[str, Any]) -> Document:
    """Return a raw document as values."""
    white_list = tuple(_texts(raw, "globalWhiteRemoteAddresses", "the file"))
    WhiteList(white_list)  # says which pattern is wrong
    accounts = _items(raw, "accounts", "the file")
    if len(accounts) > ACCOUNTS_MAX:
        raise ConfigError(f"{len(accounts)} accounts, at most {ACCOUNTS_MAX}")
    permissions = sum(len(_items(each, key, "")) for each in accounts for key in ("topicPerms", "groupPerms"))
    if permissions > PERMISSIONS_MAX:
        raise ConfigError(f"{permissions} permissions, at most {PERMISSIONS_MAX}")
    return Document(tuple(account_of(each) for each in accounts), white_list, _version(raw))


def account_of(raw: Any) -> Account:
    """Return one account of a raw document."""
    access_key = _text(raw, "accessKey", "an account")
    if len(access_key) < CHARACTERS_MIN:
        raise ConfigError(f"accessKey {access_key!r} is shorter than {CHARACTERS_MIN} characters")
    owner = f"account {shortened(access_key)}"
    if "<<" in raw:
        raise ConfigError(f"{owner}: merge keys (<<) are not supported; write its keys out")
    secrets = _secrets(raw, owner)
    return Account(
        access_key=access_key,
        secrets=tuple(secret.encode() for secret in secrets),
        is_sample=any(map(is_sample, secrets)),
        white_list=WhiteList([_text(raw, "whiteRemoteAddress", owner)]),
        is_admin=_truth(raw, "admin", owner),
        default_topic=permission(_text(raw, "defaultTopicPerm", owner) or "DENY", f"{owner}, defaultTopicPerm"),
        default_group=permission(_text(raw, "defaultGroupPerm", owner) or "DENY", f"{owner}, defaultGroupPerm"),
        topics=_permissions(raw, "topicPerms", owner),
        groups=_permissions(raw, "groupPerms", owner),
    )


def permission(word: str, of: str) -> Action:
    """Return the actions of a permission word; an unknown one is reported and allows nothing."""
    found = WORDS.get(word.strip())
    if found is None:
        logger.warning(
            "%s: %r is not a permission and counts as DENY; use PUB, SUB, PUB|SUB or DENY", of, shortened(word)
        )
    return found or Action.NONE


def _secrets(raw: Any, owner: str) -> list[str]:
    secrets = [resolved_secret(_text(raw, "secretKey", owner), owner)]
    if previous := _text(raw, "previousSecretKey", owner):
        secrets.append(resolved_secret(previous, owner))
    if any(len(secret) < CHARACTERS_MIN for secret in secrets):
        raise ConfigError(f"{owner}: a secretKey is missing or shorter than {CHARACTERS_MIN} characters")
    return secrets


def _permissions(raw: Any, key: str, owner: str) -> dict[str, Action]:
    found: dict[str, Action] = {}
    for text in _texts(raw, key, owner):
        parts = [part.strip() for part in text.split("=") if part.strip()]
        if len(parts) != 2:
            raise ConfigError(f"{owner}: {key} has {shortened(text)!r}, which is not name=PERMISSION")
        found[parts[0]] = permission(parts[1], f"{owner}, {key} {shortened(parts[0])}")
    return found


def _version(raw: Mapping[str, Any]) -> DataVersion:
    """Return the first version of the list; a damaged one counts as the first."""
    versions = _items(raw, "dataVersion", "the file")
    try:
        return DataVersion(counter=int(versions[0]["counter"]), timestamp=int(versions[0]["timestamp"]))
    except (IndexError, KeyError, TypeError, ValueError):
        return DataVersion()


def _truth(raw: Any, key: str, owner: str) -> bool:
    text = _text(raw, key, owner).lower()
    if text not in _TRUE and text not in _FALSE:
        raise ConfigError(f"{owner}: {key} is true or false, not {shortened(text)!r}")
    return text in _TRUE


def _text(raw: Any, key: str, owner: str) -> str:
    """Return the text under *key*; empty if there is none."""
    if not isinstance(raw, dict):
        raise ConfigError(f"{owner} must have keys such as accessKey, not {_kind(raw)}")
    value = raw.get(key, "")
    if isinstance(value, bool | int):  # of a change that is not written yet
        value = str(value).lower()
    if not isinstance(value, str):
        raise ConfigError(f"{owner}: {key} must be a text, not {_kind(value)}")
    return "" if value.strip() in _BLANK else value


def _texts(raw: Any, key: str, owner: str) -> list[str]:
    values = _items(raw, key, owner)
    for value in values:
        if not isinstance(value, str):
            raise ConfigError(f"{owner}: {key} must be a list of texts; it has {_kind(value)}")
    return values


def _items(raw: Any, key: str, owner: str) -> list[Any]:
    """Return the list under *key*; empty if there is none."""
    values = raw.get(key) if isinstance(raw, dict) else None
    if values is None or (isinstance(values, str) and values.strip() in _BLANK):
        return []
    if not isinstance(values, list):
        raise ConfigError(f"{owner}: {key} must be a list, not {_kind(values)}")
    return values


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return repr(shortened(value))
    return "a mapping" if isinstance(value, dict) else "a list" if isinstance(value, list) else "something else"
