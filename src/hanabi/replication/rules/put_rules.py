"""Requirements of a SYNC_MASTER's put on its slaves, and its final status. Pure.

    rule        set by                       waits for                        without enough slaves
    one slave   SYNC_MASTER alone            one acknowledgement              SLAVE_NOT_AVAILABLE at once (4.9)
    plain       inSyncReplicas               inSyncReplicas - 1               waits, FLUSH_SLAVE_TIMEOUT (5.x)
    acting      + enableSlaveActingMaster    inSyncReplicas - 1, or fewer     refused before the append: nothing is
                                             with enableAutoInSyncReplicas    stored
    controller  + enableControllerMode       inSyncReplicas - 1, or all with  refused before the append: nothing is
                                             allAckInSyncStateSet             stored

Replicas include the master, acknowledgements do not. In 5.x inSyncReplicas is 1 unless set, so that SYNC_MASTER alone
waits for nothing. Here an unset inSyncReplicas means the rule of 4.9: a broker whose role says SYNC waits.
"""

from enum import Enum
from typing import NamedTuple

import msgspec

from hanabi.store.message_store import PutStatus


class Group(Enum):
    """Organisation of the brokers of one name."""

    PLAIN = "plain"
    ACTING_MASTER = "acting master"
    CONTROLLER = "controller"


class PutRule(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that decide about a put."""

    is_sync: bool = False  # brokerRole = SYNC_MASTER
    group: Group = Group.PLAIN
    in_sync_replicas: int | None = None
    min_in_sync_replicas: int = 1
    is_auto: bool = False  # enableAutoInSyncReplicas
    is_all: bool = False  # allAckInSyncStateSet
    fall_behind_bytes_max: int = 256 << 20  # haSlaveFallbehindMax; in groups haMaxGapNotInSync

    @property
    def needs_one_slave(self) -> bool:
        """Return whether the rule of 4.9 applies."""
        return self.group is Group.PLAIN and self.in_sync_replicas is None

    @property
    def may_refuse(self) -> bool:
        """Return whether a put may be refused before it is stored."""
        return self.is_sync and self.group is not Group.PLAIN


class Standing(NamedTuple):
    """The slaves at the moment of a put."""

    connected: int  # that have asked for a position
    in_sync: int  # of those, less than fall_behind_bytes_max behind
    alive: int | None = None  # live brokers of this name, including the master; None if unknown

    @property
    def in_sync_replicas(self) -> int:
        """Number of replicas in sync, including the master, limited to the live ones if known."""
        replicas = 1 + self.in_sync
        return replicas if self.alive is None else min(replicas, self.alive)


def why_refused(rule: PutRule, standing: Standing) -> str | None:
    """Return why a put must not be stored at all (IN_SYNC_REPLICAS_NOT_ENOUGH, code 1); None if it may."""
    if not rule.may_refuse:
        return None
    have = standing.in_sync_replicas
    needed = rule.min_in_sync_replicas if rule.group is Group.CONTROLLER else _acting_replicas(rule, have)
    return None if needed <= have else f"{have} of {needed} replicas are in sync"


def acknowledgements_needed(rule: PutRule, standing: Standing) -> int:
    """Return the number of slaves that must acknowledge a stored put; 0 if it does not wait."""
    if not rule.is_sync:
        return 0
    if rule.needs_one_slave:
        return 1
    have = standing.in_sync_replicas
    if rule.group is Group.CONTROLLER and rule.is_all:
        return have - 1
    if rule.group is Group.ACTING_MASTER:
        return _acting_replicas(rule, have) - 1
    return (rule.in_sync_replicas or 1) - 1


def _acting_replicas(rule: PutRule, have: int) -> int:
    wanted = rule.in_sync_replicas or 1
    return max(min(wanted, have), rule.min_in_sync_replicas) if rule.is_auto else wanted


def status_at_once(rule: PutRule, standing: Standing) -> PutStatus | None:
    """Return the status of a put that need not wait, or cannot succeed by waiting; None if it must wait."""
    if rule.is_sync and rule.needs_one_slave and not standing.in_sync:
        return PutStatus.SLAVE_NOT_AVAILABLE
    return None if acknowledgements_needed(rule, standing) else PutStatus.PUT_OK


def joint_status(flushed: PutStatus, replicated: PutStatus) -> PutStatus:
    """Combine the statuses of the disk and of the slaves. If both fail, the slaves' status wins."""
    return flushed if replicated is PutStatus.PUT_OK else replicated
