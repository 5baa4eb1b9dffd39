"""Remote changes of ACL 1.0 files, on the raw form of one document. Pure.

Each function returns a new document with the next version; the caller checks and writes it. Agrees with Java's
PlainPermissionManager (4.9.8), whose sentences the errors have; no secret is in any of them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from hanabi.access.plain.account import WORDS
from hanabi.access.plain.document import account_of, document_of
from hanabi.access.secret import CHARACTERS_MIN
from hanabi.errors import ConfigError
from hanabi.wire.headers.acl import CreateAccessConfigHeader
from hanabi.wire.settings_text import shortened

Raw = dict[str, Any]


def with_account(raw: Raw, asked: CreateAccessConfigHeader, now_ms: int) -> Raw:
    """Return *raw* with the account of a request made or changed. Lists are replaced whole; absent keys stay."""
    _check(asked)
    accounts = _accounts(raw)
    old = next((each for each in accounts if each.get("accessKey") == asked.access_key), {})
    changed = {**old, **_asked_keys(asked)}
    changed.pop("previousSecretKey", None)  # a remote change of the secret is final
    account_of(changed)
    return _next(raw | {"accounts": [*(each for each in accounts if each is not old), changed]}, now_ms)


def without_account(raw: Raw, access_key: str, now_ms: int) -> Raw:
    """Return *raw* without an account that it has."""
    return _next(raw | {"accounts": [each for each in _accounts(raw) if each.get("accessKey") != access_key]}, now_ms)


def with_white_list(raw: Raw, addresses: Sequence[str], now_ms: int) -> Raw:
    """Return *raw* with *addresses* in place of its global white list."""
    return _next(raw | {"globalWhiteRemoteAddresses": list(addresses)}, now_ms)


def split_list(text: str | None) -> list[str] | None:
    """Return the parts of a comma list of a request; None if it was not sent."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def native(raw: Mapping[str, Any]) -> Raw:
    """Return *raw* with truth values and numbers as such: Apache's broker casts them when it reads the file."""
    document = dict(raw)
    version = document_of(raw).version
    document["dataVersion"] = [{"counter": version.counter, "timestamp": version.timestamp}]
    if accounts := _accounts(document):
        document["accounts"] = [_native_account(each) for each in accounts]
    return document


def _native_account(raw: Raw) -> Raw:
    return raw | {"admin": account_of(raw).is_admin} if "admin" in raw else raw


def _accounts(raw: Mapping[str, Any]) -> list[Raw]:
    accounts = raw.get("accounts")
    return list(accounts) if isinstance(accounts, list) else []


def _asked_keys(asked: CreateAccessConfigHeader) -> Raw:
    keys: Raw = {
        "accessKey": asked.access_key,
        "secretKey": asked.secret_key,
        "whiteRemoteAddress": asked.white_remote_address,
        "admin": asked.admin,
        "defaultTopicPerm": asked.default_topic_perm or None,
        "defaultGroupPerm": asked.default_group_perm or None,
        "topicPerms": split_list(asked.topic_perms),
        "groupPerms": split_list(asked.group_perms),
    }
    return {key: value for key, value in keys.items() if value is not None}


def _check(asked: CreateAccessConfigHeader) -> None:
    if min(len(asked.access_key), len(asked.secret_key or "")) < CHARACTERS_MIN:
        key = shortened(asked.access_key)
        raise ConfigError(f"The accessKey={key} and its secretKey cannot be null and length should longer than 6")
    for entry in (*(split_list(asked.topic_perms) or ()), *(split_list(asked.group_perms) or ())):
        parts = [part for part in entry.split("=") if part]
        if len(parts) != 2:
            raise ConfigError(
                f"Parse Resource format error for {shortened(entry)}.\n"
                "The expected resource format is 'Res=Perm'. For example: topicA=SUB"
            )
        if parts[1].strip() not in WORDS:
            raise ConfigError(
                f"Parse resource permission error for {shortened(entry)}.\n"
                "The expected permissions are 'SUB' or 'PUB' or 'SUB|PUB' or 'PUB|SUB'."
            )


def _next(raw: Raw, now_ms: int) -> Raw:
    """Return *raw* with the next version, after a check of the whole."""
    counter = document_of(raw).version.counter + 1
    return raw | {"dataVersion": [{"counter": str(counter), "timestamp": str(now_ms)}]}
