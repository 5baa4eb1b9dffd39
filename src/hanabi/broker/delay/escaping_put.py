"""`put` of delayed delivery on an acting slave: what is put is sent to another master.

Delivery puts in one call and sending takes a round trip, so a message is put twice:

    put(message)          first: noted, `ESCAPING`      ─┐
    await send_noted()    sends it                       │   delivery calls this before its next step
    put(message)          again: the result of sending  <┘

A message is recognised by its contents, since delivery reads it from the log again.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from hanabi.broker.delay.delivery_pace import ESCAPING
from hanabi.broker.delay.redelivery import ADDED_LATER
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import PutResult
from hanabi.wire.message.properties import decode_properties

Send = Callable[[PendingMessage], Awaitable[PutResult]]

_RESULTS_MAX: Final = 1_000  # of messages that were not put again: the next put sends them once more


class EscapingPut:
    """The put of one delivery."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._noted: PendingMessage | None = None
        self._results: dict[int, PutResult] = {}

    def put(self, message: PendingMessage) -> PutResult:
        """Return the result of sending *message*; `ESCAPING` if it is to be sent first."""
        result = self._results.pop(_key(message), None)
        if result is not None:
            return result
        self._noted = message
        return ESCAPING

    async def send_noted(self) -> None:
        """Send the message that was put last, if its result is not known."""
        message, self._noted = self._noted, None
        if message is not None:
            if len(self._results) >= _RESULTS_MAX:
                self._results.clear()
            self._results[_key(message)] = await self._send(message)


def _key(message: PendingMessage) -> int:
    properties = decode_properties(message.properties)
    for name in ADDED_LATER:
        properties.pop(name, None)
    place = message.topic, message.queue_id, message.born_timestamp_ms, message.born_host
    return hash((place, bytes(message.body), frozenset(properties.items())))
