"""Needs of a request: resources, and the actions of which it needs one on each. Pure."""

from enum import IntFlag, StrEnum
from typing import NamedTuple

from hanabi.wire.system_names import RETRY_PREFIX


class Action(IntFlag):
    """Actions on a resource. ACL 1.0 knows PUB and SUB alone."""

    NONE = 0
    PUB = 1
    SUB = 2
    CREATE = 4
    UPDATE = 8
    DELETE = 16
    GET = 32
    LIST = 64
    ALL = 127


class Kind(StrEnum):
    """Kinds of resources, as ACL 2.0 spells them."""

    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


class Need(NamedTuple):
    """One resource, and the actions of which one must be allowed on it."""

    kind: Kind
    name: str
    actions: Action


class Named(NamedTuple):
    """The topics and consumer groups that a request names."""

    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


class Rights(NamedTuple):
    """The actions that a request needs on each topic and on each group that it names, and on the cluster."""

    topic: Action = Action.NONE
    group: Action = Action.NONE
    cluster: Action = Action.NONE


def needs_of(rights: Rights, named: Named, cluster: str) -> tuple[Need, ...]:
    """Return each need once: the cluster's first, then topics, then groups."""
    needs: dict[Need, None] = {}
    if rights.cluster:
        needs[Need(Kind.CLUSTER, cluster, rights.cluster)] = None
    if rights.topic:
        needs |= dict.fromkeys(_topic_need(topic, rights.topic) for topic in named.topics)
    if rights.group:
        needs |= dict.fromkeys(Need(Kind.GROUP, group, rights.group) for group in named.groups)
    return tuple(needs)


def _topic_need(topic: str, actions: Action) -> Need:
    """Return the need of one topic. A retry topic belongs to its group: its members read it and write to it."""
    if not topic.startswith(RETRY_PREFIX):
        return Need(Kind.TOPIC, topic, actions)
    if actions & Action.PUB:
        actions = actions & ~Action.PUB | Action.SUB
    return Need(Kind.GROUP, topic.removeprefix(RETRY_PREFIX), actions)
