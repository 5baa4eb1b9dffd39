"""Roles that a controller assigns, and what a broker does with such news. Pure."""

from enum import Enum

import msgspec


class RoleNews(msgspec.Struct, frozen=True, kw_only=True):
    """The master of a broker name, as a controller tells it."""

    master_id: int | None
    master_address: str | None
    master_epoch: int
    members: frozenset[int]
    set_epoch: int


class Change(Enum):
    """What a broker does next."""

    NOTHING = "nothing"
    ELECT = "ask for an election"
    BECOME_MASTER = "become the master"
    BECOME_SLAVE = "become a slave"
    USE_SET = "use the set of replicas in sync"


def change_for(known: RoleNews | None, news: RoleNews, own_id: int) -> Change:
    """Return what *news* mean for the broker *own_id*. Epochs only grow: older news are ignored."""
    if known is not None and news.master_epoch < known.master_epoch:
        return Change.NOTHING
    if news.master_id is None or news.master_address is None:
        return Change.ELECT
    is_new = known is None or news.master_epoch > known.master_epoch or known.master_id != news.master_id
    if is_new:
        return Change.BECOME_MASTER if news.master_id == own_id else Change.BECOME_SLAVE
    is_newer_set = known is not None and news.set_epoch > known.set_epoch
    return Change.USE_SET if is_newer_set and news.master_id == own_id else Change.NOTHING
