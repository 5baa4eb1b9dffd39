"""Interfaces that transactions need from other parts of the broker."""

from typing import Protocol

from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import PutResult
from hanabi.wire.bodies.topics import TopicConfig
from hanabi.wire.header import Header


class Intake(Protocol):
    """Entry into the store."""

    def put(self, message: PendingMessage) -> PutResult: ...


class Offsets(Protocol):
    """Committed offsets of groups."""

    def find(self, group: str, topic: str, queue_id: int) -> int: ...

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> object: ...

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> object: ...


class Peer(Protocol):
    """The connection of a client."""

    def send_oneway(self, code: int, header: Header | None = None, body: bytes = b"") -> None: ...


class Producers(Protocol):
    """Connected producers of a group."""

    def pick(self, group: str) -> Peer | None: ...


class TopicMaker(Protocol):
    """Creator of the broker's own topics."""

    def create_on_send_back(
        self, topic: str, queue_nums: int, perm: int, topic_sys_flag: int = 0
    ) -> TopicConfig | None: ...
