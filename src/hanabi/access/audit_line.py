"""Lines of the audit log: values, how a request becomes one, and secrets that are hidden in them. Pure."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

import msgspec

from hanabi.access.demands import broker_demand
from hanabi.access.names import Surroundings
from hanabi.access.needs import Action, Named
from hanabi.errors import MQError
from hanabi.wire.codes import request_name
from hanabi.wire.command import Command
from hanabi.wire.settings_text import shortened
from hanabi.wire.signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE

HIDDEN: Final = "(hidden)"
VALUE_BYTES_MAX: Final = 16_384
_RESOURCES_MAX: Final = 20
_SECRET: Final = re.compile("password|secret|credential|token|authenticationuser", re.IGNORECASE)
_OF_SIGNATURE: Final = frozenset({ACCESS_KEY, SECURITY_TOKEN, SIGNATURE})
_CHANGES: Final = Action.CREATE | Action.UPDATE | Action.DELETE


class Verdict(StrEnum):
    """Outcome of a request."""

    REFUSED = "refused"
    DONE = "done"
    FAILED = "failed"


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line. `old` and `new` are of changes: the value before, and the request."""

    time_ms: int
    verdict: Verdict
    account: str | None
    address: str
    code: int
    certificate: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    reason: str | None = None
    old: Any = None
    new: Any = None


def encode_line(line: Line) -> bytes:
    """Return *line* as JSON with a line feed; values that are too long are cut."""
    value = {
        "time": datetime.fromtimestamp(line.time_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        "verdict": line.verdict,
        "account": line.account,
        "address": line.address,
        "certificate": list(line.certificate),
        "request": request_name(line.code),
        "code": line.code,
        "resources": list(line.resources),
        "reason": line.reason,
        "old": _bounded(redacted(msgspec.to_builtins(line.old))),
        "new": _bounded(redacted(line.new)),
    }
    return json.dumps({key: each for key, each in value.items() if each not in (None, [])}).encode() + b"\n"


def redacted(value: Any) -> Any:
    """Return *value* with the values of secret keys hidden, at any depth."""
    if isinstance(value, Mapping):
        return {key: HIDDEN if each and is_secret(str(key)) else redacted(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(each) for each in value]
    return value


def is_secret(key: str) -> bool:
    """Return whether values of *key* are not shown."""
    return _SECRET.search(key) is not None


def is_change(code: int) -> bool:
    """Return whether requests of *code* change the server, its topics, groups or accounts. Commits of offsets do
    not."""
    rights = broker_demand(code).policy
    return any(actions & _CHANGES and not actions & Action.SUB for actions in rights)


def account_of(request: Command) -> str | None:
    """Return the account that a request gives, whether it is known or not."""
    try:
        account = request.fields().get(ACCESS_KEY)
    except MQError:
        return None
    return shortened(account) if account else None


def resources_of(header: Any, code: int) -> tuple[str, ...]:
    """Return the topics and groups in a header; those of a gRPC call are given. A body is not read: it may be long, and
    its sender unknown."""
    try:
        named = header if isinstance(header, Named) else broker_demand(code).named(header, b"", _NOWHERE)
    except (MQError, AttributeError):
        return ()
    topics, groups = (map(shortened, names) for names in named)
    return (*(f"Topic:{topic}" for topic in topics), *(f"Group:{group}" for group in groups))[:_RESOURCES_MAX]


def asked(request: Command) -> Any:
    """Return what a request asks for: its fields, and its body as JSON or as settings."""
    fields: dict[str, Any] = {name: value for name, value in request.fields().items() if name not in _OF_SIGNATURE}
    if request.body:
        fields["body"] = _readable(bytes(request.body[:VALUE_BYTES_MAX]))
    return fields


def _readable(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        if body[:1] in (b"{", b"["):
            return "(not shown: too long)"  # a part of it may be a secret
        lines = (line.partition("=") for line in body.decode(errors="replace").splitlines() if "=" in line)
        return {key.strip(): value.strip() for key, _, value in lines}


def _bounded(value: Any) -> Any:
    text = json.dumps(value, default=str)
    return value if len(text) <= VALUE_BYTES_MAX else text[:VALUE_BYTES_MAX]


_NOWHERE: Final = Surroundings("", "", lambda _: None)
