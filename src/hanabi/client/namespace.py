"""Namespaces: several applications with the same names on one cluster. On the wire a name carries its namespace.

    Orders              in namespace shop     shop%Orders
    %RETRY%billing                            %RETRY%shop%billing
    %DLQ%billing                              %DLQ%shop%billing

Pure; agrees with Java's NamespaceUtil. The brokers' own topics are in no namespace.
"""

from typing import Final

from hanabi.wire.system_names import DEAD_LETTER_PREFIX, RETRY_PREFIX, is_system

SEPARATOR: Final = "%"


def wrap(namespace: str, name: str) -> str:
    """Return the name on the wire of a topic or a group. A name with the namespace stays as it is."""
    if not namespace or not name or is_system(name):
        return name
    prefix, bare = _parted(name)
    if bare.startswith(namespace + SEPARATOR):
        return name
    return f"{prefix}{namespace}{SEPARATOR}{bare}"


def unwrap(namespace: str, name: str) -> str:
    """Return the program's name of a topic or a group. A name of another namespace, or of none, stays as it is."""
    if not namespace or not name:
        return name
    prefix, bare = _parted(name)
    inside = namespace + SEPARATOR
    return prefix + bare.removeprefix(inside) if bare.startswith(inside) else name


def retry_topic(namespace: str, group: str) -> str:
    """Return the topic of a group's failed messages, for the group's name on the wire."""
    return RETRY_PREFIX + wrap(namespace, group)


def dead_letter_topic(namespace: str, group: str) -> str:
    """Return the topic of a group's dead letters, for the group's name on the wire."""
    return DEAD_LETTER_PREFIX + wrap(namespace, group)


def _parted(name: str) -> tuple[str, str]:
    """Split a topic into the prefix of retry or dead-letter topics, and the rest."""
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if name.startswith(prefix):
            return prefix, name.removeprefix(prefix)
    return "", name
