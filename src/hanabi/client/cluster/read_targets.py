"""Choice of the broker that a queue is read from: the suggested one, or another one of its name that answers.

Every answer to a pull suggests a broker id for the next pull. While the suggested broker does not answer, any other
broker of the same name is asked. Makes decisions without I/O.

Agrees with Java's PullAPIWrapper, except that Java changes the broker only on a suggestion: it waits until the name
servers notice that a broker is gone, and it returns to a slave that refuses.
"""

from hanabi.client.cluster.routes import MASTER_ID, Route, address_of
from hanabi.client.cluster.unresponsive_brokers import UnresponsiveBrokers
from hanabi.message import MessageQueue


class ReadTargets:
    """Read targets of one client. *silent* are the brokers that did not answer recently."""

    def __init__(self, silent: UnresponsiveBrokers) -> None:
        self._silent = silent
        self._suggested: dict[MessageQueue, int] = {}

    def address(self, route: Route, queue: MessageQueue) -> str | None:
        """Return the address for the next pull of *queue*; None if *route* has no broker of its name."""
        brokers = route.brokers.get(queue.broker_name, {})
        address = address_of(brokers, self._suggested.get(queue, MASTER_ID))
        if address is None or not self._silent.is_silent(address):
            return address
        return next((other for other in brokers.values() if not self._silent.is_silent(other)), address)

    def answered(self, queue: MessageQueue, suggested_id: int) -> None:
        """Record the broker id that an answer suggests."""
        self._suggested[queue] = suggested_id

    def forget(self, queue: MessageQueue) -> None:
        """Drop the suggestion for a queue: its broker refused a pull, or the queue is not read any more."""
        self._suggested.pop(queue, None)
