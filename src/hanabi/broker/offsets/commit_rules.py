"""Rules for accepting offset commits, including when an offset may move backwards.

A consumer commits in two ways. A pull carries a commit: that never moves an offset backwards, as it may be late. A
commit request (15) is taken as it is, because consumers that were reset, that seek, or whose offset was corrected use
it, and so do the tools. One exception: a member whose queue another member has read since is a former owner with a late
commit, which would make the new owner's messages repeat. Hanabi's consumers mark mere progress (`increaseOnly`), so
their late commits do no harm.

After a crash no offset beyond the end of its queue is taken: a consumer that survived the crash refers to lost
messages, and the new messages with their offsets would be skipped.
"""

import logging
from collections.abc import Callable
from typing import Final

from hanabi.broker.clients.consumers import Consumers
from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.errors import SystemBusy
from hanabi.remoting.connection.protocol import Connection

READERS_MAX: Final = 500_000

logger = logging.getLogger(__name__)


class CommitRules:
    """Gate for commits. Remembers the last connection that read each queue for a group, as a hint."""

    def __init__(
        self,
        offsets: ConsumerOffsets,
        consumers: Consumers,
        *,
        is_lost: Callable[[str, int, int], bool] = lambda _topic, _queue_id, _offset: False,
        readers_max: int = READERS_MAX,
    ) -> None:
        """*is_lost* returns whether a crash has lost the messages before an offset of a queue."""
        self._is_lost = is_lost
        self._offsets, self._consumers, self._readers_max = offsets, consumers, readers_max
        self._readers: dict[tuple[str, str, int], str] = {}
        self._logged_full = self._logged_lost = False

    def note_reader(self, group: str, topic: str, queue_id: int, peer: str) -> None:
        """Note that *peer* reads the queue for the group."""
        readers = self._readers
        readers[group, topic, queue_id] = peer
        if len(readers) > self._readers_max:  # an active reader returns within seconds
            readers.clear()

    def commit_with_pull(self, group: str, topic: str, queue_id: int, offset: int, peer: str) -> None:
        """Commit the offset that a pull carries."""
        if offset < 0 or self._is_lost(topic, queue_id, offset):
            return
        try:
            self._offsets.commit(group, topic, queue_id, offset, peer)
        except SystemBusy as error:  # no reason to withhold messages
            if not self._logged_full:
                self._logged_full = True
                logger.error("%s: an offset is not committed: %s", peer, error)

    def commit(
        self,
        group: str,
        topic: str,
        queue_id: int,
        offset: int,
        connection: Connection,
        *,
        increase_only: bool = False,
    ) -> bool:
        """Commit an offset that a client requested. Return False if it is late or lost, and another one is kept."""
        if self._is_lost(topic, queue_id, offset):
            level = logging.DEBUG if self._logged_lost else logging.WARNING
            self._logged_lost = True
            message = "%s: offset %d of %s@%s queue %d is not committed: the messages before it were lost in a crash"
            logger.log(level, message, connection.peer, offset, topic, group, queue_id)
            return False
        backwards = not increase_only and not self._is_late(group, topic, queue_id, connection)
        return self._offsets.commit(group, topic, queue_id, offset, connection.peer, backwards=backwards)

    def _is_late(self, group: str, topic: str, queue_id: int, connection: Connection) -> bool:
        reader = self._readers.get((group, topic, queue_id))
        if reader is None or reader == connection.peer:
            return False
        consumers = self._consumers.find_group(group)
        if consumers is None or connection not in consumers.members:
            return False
        return any(member.peer == reader for member in consumers.members)
