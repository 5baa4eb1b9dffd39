"""Offset stores of consumers: kept in memory, saved periodically.

    RemoteOffsets   at the brokers, for members that share the queues
    LocalOffsets    in a local file, for a broadcasting member

The file has the name, place and content of Apache's, so that a program can switch between the clients:

    ~/.rocketmq_offsets/CLIENT_ID/GROUP/offsets.json    {"offsetTable":{{"brokerName":"a","queueId":0,"topic":"T"}:42}}

`file_location` chooses the client id, and separates consumers without an instance name.

Agrees with Java's RemoteBrokerOffsetStore, LocalFileOffsetStore and OffsetSerializeWrapper. Names are those on the
wire.
"""

import asyncio
import logging
import os
from collections.abc import Coroutine, Iterable
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from hanabi.client.cluster.core import Core
from hanabi.client.cluster.queue_access import QueueAccess
from hanabi.client.config import ClientConfig
from hanabi.client.consumer.offsets.commit_order import commit_rounds
from hanabi.client.consumer.offsets.file_format import decode_offsets, encode_offsets
from hanabi.client.consumer.offsets.file_location import Claim, claim
from hanabi.client.in_thread import in_thread
from hanabi.durable_table import DurableTable
from hanabi.errors import MQError
from hanabi.message import MessageQueue

DIRECTORY_VARIABLE: Final = "ROCKETMQ_OFFSETS_DIR"  # a system property in Java

logger = logging.getLogger(__name__)


class ReadFrom(Enum):
    """Source of an offset."""

    MEMORY = "memory"
    STORE = "store"  # the broker or the file; the memory caches the result if it has none
    MEMORY_FIRST = "memory first"


class OffsetStore(Protocol):
    """Offsets of one consumer. All methods but `load`, `read` and `persist` return at once."""

    async def load(self) -> None:
        """Load saved offsets; call it once, first."""
        ...

    async def read(self, queue: MessageQueue, where: ReadFrom = ReadFrom.MEMORY_FIRST) -> int | None:
        """Return the group's offset; None if there is none."""
        ...

    def memory(self, queue: MessageQueue) -> int | None:
        """Return the offset in memory; None if there is none."""
        ...

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool) -> None:
        """Mark everything below *offset* as consumed. With *increase_only*, a smaller offset is ignored."""
        ...

    async def persist(self, queues: Iterable[MessageQueue], *, confirmed: bool = False) -> None:
        """Save the offsets in memory of *queues*; with *confirmed*, return when they are saved. All queues are
        tried.
        """
        ...

    def remove(self, queue: MessageQueue) -> None:
        """Drop the offset in memory of *queue*: another member consumes it now."""
        ...

    def force_next_commit(self, queue: MessageQueue) -> None:
        """Force the offset in memory of *queue*, even if other members have committed a larger one."""
        ...

    def begin(self, queue: MessageQueue, offset: int) -> None:
        """Record that the consumer starts in *queue* at *offset*, as none was saved."""
        ...

    def is_undisputed(self, queue: MessageQueue) -> bool:
        """Return True if no other member can have passed the offset in memory of *queue*."""
        ...

    def close(self) -> None:
        """Release shared resources; call it last."""
        ...


class _Memory:
    """Memory part of both stores."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}

    def memory(self, queue: MessageQueue) -> int | None:
        return self._offsets.get(queue)

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool) -> None:
        if not increase_only or offset > self._offsets.get(queue, -1):
            self._offsets[queue] = offset

    def remove(self, queue: MessageQueue) -> None:
        self._offsets.pop(queue, None)

    def force_next_commit(self, queue: MessageQueue) -> None:
        """Do nothing: there is no other writer."""

    def begin(self, queue: MessageQueue, offset: int) -> None:
        """Do nothing, as Java: no offset is sent before something was consumed."""

    def is_undisputed(self, queue: MessageQueue) -> bool:
        return True

    def close(self) -> None:
        """Do nothing: no resource is shared."""

    def _learn(self, queue: MessageQueue, saved: int) -> int:
        """Cache a *saved* offset; an offset already in memory is newer."""
        self._offsets.setdefault(queue, saved)
        return saved


class _Keeper(NamedTuple):
    """Broker that keeps the offsets of a queue, and how often connections to brokers of its name ended."""

    address: str | None  # None: the route was not known yet
    losses: int


class RemoteOffsets(_Memory):
    """Offsets at the brokers. Periodic commits are one-way, as in Java: the next one replaces a lost one.

    A member that a broker lost sight of may find that other members have consumed its queues meanwhile. The same holds
    when another broker keeps the offsets: a slave while the master is gone, whose offsets are older, and the master
    again. The member then commits its own offset only if it is larger: a group does not go back unless a program or an
    operator wants it to. Two members may briefly own one queue, so the broker is also asked to enforce this.
    """

    def __init__(self, core: Core, group: str) -> None:
        super().__init__()
        self._core, self._group, self._queues = core, group, QueueAccess(core)
        self._known_at: dict[MessageQueue, _Keeper] = {}  # when we last knew the group's offset
        self._larger: dict[MessageQueue, int] = {}  # larger offsets committed by other members
        # queues with an offset set by a program or an operator, rather than progress
        self._set: set[MessageQueue] = set()

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool) -> None:
        before = self._offsets.get(queue)
        if not increase_only:
            self._set.add(queue)
        if before is None:
            self._known_at.setdefault(queue, self._keeper(queue))
        elif offset < before and not increase_only:
            self.force_next_commit(queue)  # going back is always intended
        super().update(queue, offset, increase_only=increase_only)

    def remove(self, queue: MessageQueue) -> None:
        super().remove(queue)
        self._known_at.pop(queue, None)
        self._larger.pop(queue, None)
        self._set.discard(queue)

    def force_next_commit(self, queue: MessageQueue) -> None:
        self._known_at[queue] = self._keeper(queue)
        self._larger.pop(queue, None)

    def is_undisputed(self, queue: MessageQueue) -> bool:
        return queue not in self._larger and self._is_known(queue)

    def _is_known(self, queue: MessageQueue) -> bool:
        known, now = self._known_at.get(queue), self._keeper(queue)
        return known is not None and known.losses == now.losses and known.address in (None, now.address)

    def _keeper(self, queue: MessageQueue) -> "_Keeper":
        return _Keeper(self._queues.known_address(queue), self._core.losses_of(queue.broker_name))

    async def load(self) -> None:
        """Do nothing: offsets are read from the brokers when a queue is taken."""

    async def read(self, queue: MessageQueue, where: ReadFrom = ReadFrom.MEMORY_FIRST) -> int | None:
        known = self._offsets.get(queue)
        if where is ReadFrom.MEMORY or (where is ReadFrom.MEMORY_FIRST and known is not None):
            return known
        keeper = self._keeper(queue)
        offset = await self._queues.committed_offset(self._group, queue)
        if known is None:
            self._known_at[queue] = keeper
            self._larger.pop(queue, None)
        if offset is None or offset < 0:
            return None
        return self._learn(queue, offset)

    async def persist(self, queues: Iterable[MessageQueue], *, confirmed: bool = False) -> None:
        known = {queue: offset for queue in queues if (offset := self._offsets.get(queue)) is not None}
        answers: list[BaseException | None] = []
        for together in commit_rounds(known) if confirmed else (known,):
            answers += await asyncio.gather(
                *(self._commit(queue, known[queue], confirmed) for queue in together), return_exceptions=True
            )
        for answer in answers:  # one broker that is down does not prevent commits at the rest
            if answer is not None:
                raise answer

    async def _commit(self, queue: MessageQueue, offset: int, confirmed: bool) -> None:
        if self.is_undisputed(queue) or await self._is_ahead(queue, offset):
            increase_only = queue not in self._set
            await self._queues.commit_offset(
                self._group, queue, offset, oneway=not confirmed, increase_only=increase_only
            )

    async def _is_ahead(self, queue: MessageQueue, offset: int) -> bool:
        """Return True unless another member passed *offset* while the broker had lost sight of us."""
        if not self._is_known(queue):
            keeper = self._keeper(queue)
            saved = await self._queues.committed_offset(self._group, queue)
            self._known_at[queue] = keeper
            if saved is not None and saved > offset:
                self._larger[queue] = saved
        if offset < self._larger.get(queue, offset):
            return False
        self._larger.pop(queue, None)
        return True


class LocalOffsets(_Memory):
    """Offsets in a local file. *directory* defaults to that of Apache's clients.

    With *shares_id*, other consumers on this machine may have the same id: `load` claims a folder that none of them
    uses, until `close`.
    """

    def __init__(self, client_id: str, group: str, *, shares_id: bool = False, directory: Path | None = None) -> None:
        super().__init__()
        self._root = directory if directory is not None else default_directory()
        self._client_id, self._group, self._shares_id = client_id, group, shares_id
        self._claim: Claim | None = None
        self._use(self._root / client_id / group)
        self._saved: dict[MessageQueue, int] = {}
        self._writing = asyncio.Lock()

    @classmethod
    def of(cls, config: ClientConfig, group: str) -> "LocalOffsets":
        """Make the store of a client with this *config*."""
        return cls(config.offsets_id, group, shares_id=config.shares_offsets_id)

    def _use(self, folder: Path) -> None:
        self.path = folder / "offsets.json"
        self._file = DurableTable(self.path, encode=encode_offsets, decode=decode_offsets)

    def begin(self, queue: MessageQueue, offset: int) -> None:
        """Record and save the start: messages that arrive while this consumer is down are consumed afterwards."""
        self.update(queue, offset, increase_only=True)

    def close(self) -> None:
        if self._claim is not None:
            self._claim.release()

    async def load(self) -> None:
        """Read the file, or its backup. Raise StoreDamaged if neither is readable: starting over would silently skip
        messages.
        """
        if self._shares_id and self._claim is None:  # three system calls in the loop: a thread could not be cancelled
            self._claim = claim(self._root, self._client_id, self._group)
            self._use(self._claim.folder)
        found = await in_thread(self._file.load)
        self._saved = found or {}
        self._offsets.update(self._saved)

    async def read(self, queue: MessageQueue, where: ReadFrom = ReadFrom.MEMORY_FIRST) -> int | None:
        known = self._offsets.get(queue)
        if where is ReadFrom.MEMORY or (where is ReadFrom.MEMORY_FIRST and known is not None):
            return known
        saved = self._saved.get(queue)
        return None if saved is None else self._learn(queue, saved)

    async def persist(self, queues: Iterable[MessageQueue], *, confirmed: bool = False) -> None:
        """Save; offsets are always safe when this returns. Offsets of other queues stay in the file."""
        del confirmed
        wanted = list(queues)
        async with self._writing:
            changed = {queue: offset for queue in wanted if (offset := self._offsets.get(queue)) is not None}
            if not changed:
                return
            table = {**self._saved, **changed}
            await _to_the_end(in_thread(partial(self._file.save, table)))  # in a thread: it waits for the disk
            self._saved = table


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Await *work* to its end even when cancelled: a thread cannot be stopped, and must not write concurrently with the
    next one.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        if not task.cancelled() and (error := task.exception()) is not None:  # the caller gets the CancelledError
            logger.warning("offsets were not saved before the end: %s", error)
        raise


def default_directory() -> Path:
    """Return the directory of this user's offset files."""
    given = os.environ.get(DIRECTORY_VARIABLE)
    if given:
        return Path(given)
    try:
        return Path.home() / ".rocketmq_offsets"
    except RuntimeError as error:
        raise MQError(
            f"no home directory for the offsets of broadcasting consumers; set {DIRECTORY_VARIABLE}"
        ) from error
