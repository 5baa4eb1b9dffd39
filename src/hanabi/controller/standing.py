"""The standing of a controller and of the broker names that it leads: what metrics show. Pure."""

from typing import Self

import msgspec

from hanabi.controller.rules.state import BrokerSet


class SetStanding(msgspec.Struct, frozen=True, kw_only=True):
    """One broker name."""

    name: str
    has_master: bool
    master_epoch: int
    replicas: int
    alive: int
    in_sync: int

    @classmethod
    def of(cls, state: BrokerSet, alive: int) -> Self:
        """Return the standing of *state*, of which *alive* replicas send heartbeats."""
        return cls(
            name=state.name,
            has_master=state.master_id is not None,
            master_epoch=state.master_epoch,
            replicas=len(state.replicas),
            alive=alive,
            in_sync=len(state.in_sync),
        )


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """One controller. Only the leader has `sets`."""

    leads: bool
    leader: str | None
    elections: int
    state_failures: int
    sets: list[SetStanding]
