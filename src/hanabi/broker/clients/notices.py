"""Notices of group changes to members, so that they rebalance at once and not within 20 seconds.

The member whose heartbeat changed the group is notified before its heartbeat is answered: Apache does so, and some
clients miss a later notice. The other members are notified in the next loop iteration. Further changes within
GAP_SECONDS are coalesced into one notice: a thousand consumers that start together would otherwise cause a million.
Each iteration sends a bounded number. Agrees with Java's Broker2Client.notifyConsumerIdsChanged.
"""

import asyncio
import logging
from collections import OrderedDict

from hanabi.broker.clients.consumer_group import ConsumerGroup
from hanabi.broker.settings import Settings
from hanabi.errors import TransportError
from hanabi.remoting.connection.protocol import Connection
from hanabi.wire.codes import RequestCode
from hanabi.wire.headers.client import NotifyConsumerIdsChangedHeader

logger = logging.getLogger(__name__)

GAP_SECONDS = 0.1  # between two notices of a group
NOTICES_A_TURN = 256


class Notices:
    """Sends NOTIFY_CONSUMER_IDS_CHANGED unless disabled. The caller decides which changes need a notice."""

    def __init__(self, settings: Settings, gap_seconds: float = GAP_SECONDS) -> None:
        self._settings = settings
        self._gap_seconds = gap_seconds
        self._due: dict[ConsumerGroup, Connection | None] = {}  # with the member that caused the only change
        self._unsent: OrderedDict[tuple[str, Connection], None] = OrderedDict()  # one notice of a group for each member

    def changed(self, group: ConsumerGroup, by: Connection | None = None) -> None:
        """Notify the member whose heartbeat changed the group, if any, now; schedule notices to the other members."""
        if not self._settings.broker.notify_consumer_ids_changed:
            return
        if by is not None:
            _send_notice(group.name, by, at_once=True)
        if group in self._due:  # the scheduled notice covers this change too
            self._due[group] = None
            return
        self._due[group] = by
        loop = asyncio.get_running_loop()
        loop.call_at(max(loop.time(), group.noticed_at + self._gap_seconds), self._notify, group)

    def _notify(self, group: ConsumerGroup) -> None:
        known = self._due.pop(group)
        group.noticed_at = asyncio.get_running_loop().time()
        waiting = bool(self._unsent)
        others = (connection for connection in group.members if connection is not known)
        self._unsent.update(dict.fromkeys((group.name, connection) for connection in others))
        if not waiting:
            self._send()

    def _send(self) -> None:
        for _ in range(min(NOTICES_A_TURN, len(self._unsent))):
            (group, connection), _unused = self._unsent.popitem(last=False)
            _send_notice(group, connection)
        if self._unsent:
            asyncio.get_running_loop().call_soon(self._send)


def _send_notice(group: str, connection: Connection, *, at_once: bool = False) -> None:
    header = NotifyConsumerIdsChangedHeader(consumer_group=group)
    try:
        connection.send_oneway(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header, at_once=at_once)
    except TransportError as error:  # the member polls the list every 20 seconds
        logger.debug("a notice for group %s is not sent: %s", group, error)
