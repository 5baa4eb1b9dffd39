"""Namespaces: several applications with the same names on one cluster. On the wire a name carries its namespace.

    Orders              in namespace shop     shop%Orders
    %RETRY%billing                            %RETRY%shop%billing
    %DLQ%billing                              %DLQ%shop%billing

Pure; agrees with Java's NamespaceUtil. What belongs to the brokers themselves is in no namespace.
"""

from typing import Final

from hanabi.wire.system_names import DEAD_LETTER_PREFIX, RETRY_PREFIX, is_system

SEPARATOR: Final = "%"


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
