"""The contract of a store for the controller's state: read, compare and set, and leadership.

A store never lets two controllers change the same revision, and lets only the leader write.
"""

from typing import NamedTuple, Protocol

from hanabi.controller.rules.state import BrokerSet

ABSENT = 0  # the revision of a name without state


class Stored(NamedTuple):
    """The state of a broker name, and the revision that a change must name."""

    state: BrokerSet
    revision: int


class Member(NamedTuple):
    """One controller: its id, and the address where brokers reach it."""

    member_id: str
    address: str


class StateStore(Protocol):
    """States of broker names, durable. Raises StateUnavailable if it cannot be reached."""

    async def open(self, address: str) -> None:
        """Begin; *address* is where brokers reach this controller."""

    async def close(self) -> None:
        """End, and hand leadership over."""

    @property
    def leads(self) -> bool:
        """Return True while this controller may decide."""

    @property
    def leader(self) -> Member | None:
        """Return the leader, as far as it is known here."""

    @property
    def members(self) -> list[Member]:
        """Return all controllers, as far as they are known here."""

    @property
    def failures(self) -> int:
        """Return how often the state could not be read or written, since the start."""

    async def read(self, name: str) -> Stored | None:
        """Return the present state of a broker name; None if there is none."""

    async def read_all(self) -> list[Stored]:
        """Return the present states of all broker names."""

    async def write(self, name: str, revision: int, state: BrokerSet | None) -> bool:
        """Replace the state at *revision*, or remove it; False if it has another revision now. Raise
        ControllerNotLeader if this controller does not lead any more."""
