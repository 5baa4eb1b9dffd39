"""Namespaces: several applications with the same names on one cluster. On the wire a name carries its namespace.

    Orders              in namespace shop     shop%Orders
    %RETRY%billing                            %RETRY%shop%billing
    %DLQ%billing                              %DLQ%shop%billing

Pure; agrees with Java's NamespaceUtil. What belongs to the brokers themselves is in no namespace.
"""

from typing import Final

SEPARATOR: Final = "%"
RETRY_PREFIX: Final = "%RETRY%"
DEAD_LETTER_PREFIX: Final = "%DLQ%"
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
SYSTEM_TOPICS: Final = frozenset(
    {
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    }
)


def is_system(name: str) -> bool:
    """Whether a topic or a group of this name belongs to the brokers."""
    return name in SYSTEM_TOPICS or name.startswith((SYSTEM_TOPIC_PREFIX, SYSTEM_GROUP_PREFIX))


def wrap(namespace: str, name: str) -> str:
    """The name on the wire of a topic or a group. One that carries the namespace already stays as it is."""
    if not namespace or not name or is_system(name):
        return name
    prefix, bare = _parted(name)
    if bare.startswith(namespace + SEPARATOR):
        return name
    return f"{prefix}{namespace}{SEPARATOR}{bare}"


def unwrap(namespace: str, name: str) -> str:
    """The name that a program knows. One of another namespace, or of none, stays as it is."""
    if not namespace or not name:
        return name
    prefix, bare = _parted(name)
    inside = namespace + SEPARATOR
    return prefix + bare.removeprefix(inside) if bare.startswith(inside) else name


def retry_topic(namespace: str, group: str) -> str:
    """Where the messages lie that a group failed on, by its name on the wire."""
    return RETRY_PREFIX + wrap(namespace, group)


def dead_letter_topic(namespace: str, group: str) -> str:
    """Where the messages lie that a group has given up, by its name on the wire."""
    return DEAD_LETTER_PREFIX + wrap(namespace, group)


def _parted(name: str) -> tuple[str, str]:
    """What marks a topic as a group's retry or dead-letter topic, and the rest."""
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if name.startswith(prefix):
            return prefix, name.removeprefix(prefix)
    return "", name
