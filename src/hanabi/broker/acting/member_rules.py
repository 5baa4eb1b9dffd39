"""Decisions about the brokers of one name. Pure. Agrees with BrokerController (updateMinBroker) of 5.3.3."""

from collections.abc import Iterable, Mapping

from hanabi.broker.replica.roles import MASTER_ID

Members = Mapping[int, str]  # broker id -> address for clients


def joined(answers: Iterable[Members | None]) -> Members | None:
    """Return the members that any name server lists; None if no name server answered.

    A member that one name server has lost may be reachable: only a master that none of them lists counts as gone.
    """
    answered = [answer for answer in answers if answer is not None]
    if not answered:
        return None
    return {broker_id: address for answer in reversed(answered) for broker_id, address in answer.items()}


def acts_as_master(broker_id: int, address: str, members: Members) -> bool:
    """Return whether the slave *broker_id* at *address* stands in for its master: there is none, and it has the
    smallest id. A broker that is not listed does not: clients cannot find it, and another one has its id."""
    return MASTER_ID not in members and bool(members) and min(members) == broker_id and members[broker_id] == address


def others(broker_id: int, members: Members) -> list[tuple[int, str]]:
    """Return the ids and addresses of the other members, the smallest id first."""
    return sorted((other, address) for other, address in members.items() if other != broker_id)
