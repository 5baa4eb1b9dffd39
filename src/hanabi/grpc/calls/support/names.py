"""Resources of requests: names with their namespace, as brokers know them; and statuses of replies."""

from typing import Any, Final

from hanabi.grpc.proto.numbers import Code
from hanabi.grpc.rules.faults import CallRefused
from hanabi.wire.system_names import DEAD_LETTER_PREFIX, RETRY_PREFIX

NAME_CHARACTERS_MAX: Final = 255
_ALLOWED: Final = frozenset("%|-_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")


def topic_name(resource: Any) -> str:
    """Return the topic that *resource* names."""
    return _name(resource, Code.ILLEGAL_TOPIC, "topic")


def group_name(resource: Any) -> str:
    """Return the consumer group that *resource* names."""
    return _name(resource, Code.ILLEGAL_CONSUMER_GROUP, "consumer group")


def _name(resource: Any, code: Code, what: str) -> str:
    name, space = resource.name, resource.resource_namespace
    full = f"{space}%{name}" if space and not name.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)) else name
    if not name.strip() or len(full) > NAME_CHARACTERS_MAX or not _ALLOWED.issuperset(full):
        raise CallRefused(code, f"{what} {full[:80]!r} is empty, too long or has characters that are not allowed")
    if full.startswith(RETRY_PREFIX) and code is Code.ILLEGAL_CONSUMER_GROUP:
        raise CallRefused(code, f"{what} {full[:80]!r} has a reserved name")
    return str(full)


def set_status(status: Any, code: Code = Code.OK, message: str = "OK") -> None:
    """Set a Status."""
    status.code, status.message = int(code), message[:1024]
