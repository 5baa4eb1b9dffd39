"""Messages that a blocking iteration has taken from the loop and hands out one by one.

A hand-over to another thread costs far more than the message itself, so iteration takes many messages in one. The
others count as not read: they are given back before anything else is done with the consumer.
"""

from hanabi.message import StoredMessage


class ReadAhead:
    """Messages of one take. The iterating thread reads them; any thread may ask which ones are unread."""

    def __init__(self) -> None:
        self._messages: list[StoredMessage] = []
        self._next = 0
        self._state = -1

    def next(self, state: int) -> StoredMessage | None:
        """Return the next message; None if there is none, or if the queues have changed since they were taken."""
        at = self._next
        if state != self._state or at >= len(self._messages):
            return None
        self._next = at + 1
        return self._messages[at]

    def fill(self, messages: list[StoredMessage], state: int) -> None:
        """Keep *messages*, which were taken in this *state* of the queues."""
        self._next, self._messages, self._state = 0, messages, state

    @property
    def unread(self) -> list[StoredMessage]:
        """Return the messages that were not handed out."""
        return self._messages[self._next :]

    @property
    def unfinished(self) -> list[StoredMessage]:
        """Return the unread messages, and before them the one that the program has now."""
        return self._messages[max(0, self._next - 1) :]

    def drop_unread(self) -> list[StoredMessage]:
        """Forget the unread messages, and return them."""
        dropped = self.unread
        self._messages = self._messages[: self._next]
        return dropped

    def clear(self) -> None:
        """Forget everything."""
        self._messages, self._next = [], 0
