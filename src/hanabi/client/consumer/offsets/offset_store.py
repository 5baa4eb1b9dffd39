"""How far a group has come in each queue: kept in memory, saved now and then.

    RemoteOffsets   at the brokers, for members that share the queues
    LocalOffsets    in a file of this client, for a member that gets every message

The file is Apache's, in name, place and content, so that a client may become the other kind:

    ~/.rocketmq_offsets/CLIENT_ID/GROUP/offsets.json    {"offsetTable":{{"brokerName":"a","queueId":0,"topic":"T"}:42}}

`file_location` says which client id that is, and keeps consumers apart that nobody named.

Agrees with Java's RemoteBrokerOffsetStore, LocalFileOffsetStore and OffsetSerializeWrapper. Names are those on
the wire.
"""

import asyncio
import logging
import os
from collections.abc import Coroutine, Iterable
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from hanabi.client.cluster.core import Core
from hanabi.client.cluster.queue_access import QueueAccess
from hanabi.client.config import ClientConfig
from hanabi.client.consumer.offsets.commit_order import in_two_rounds
from hanabi.client.consumer.offsets.file_format import decode_offsets, encode_offsets
from hanabi.client.consumer.offsets.file_location import Claim, claim
from hanabi.client.in_thread import in_thread
from hanabi.durable_table import DurableTable
from hanabi.errors import MQError
from hanabi.message import MessageQueue

DIRECTORY_VARIABLE: Final = "ROCKETMQ_OFFSETS_DIR"  # Java has a system property for it

logger = logging.getLogger(__name__)


class ReadFrom(Enum):
    """Where to look for an offset."""

    MEMORY = "memory"
    STORE = "store"  # the broker, or the file; a memory that has nothing learns it
    MEMORY_FIRST = "memory first"


class OffsetStore(Protocol):
    """The offsets of one consumer. All but `load`, `read` and `persist` return at once."""

    async def load(self) -> None:
        """Once, before anything else."""
        ...

    async def read(self, queue: MessageQueue, where: ReadFrom = ReadFrom.MEMORY_FIRST) -> int | None:
        """How far the group has come; None if nobody knows."""
        ...

    def memory(self, queue: MessageQueue) -> int | None:
        """What the memory has; None if it has nothing."""
        ...

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool) -> None:
        """Everything below *offset* is consumed. With *increase_only*, a smaller one changes nothing."""
        ...

    async def persist(self, queues: Iterable[MessageQueue], *, confirmed: bool = False) -> None:
        """Save what the memory has of *queues*; with *confirmed*, return when it is safe. All of them are tried."""
        ...

    def remove(self, queue: MessageQueue) -> None:
        """Forget what the memory has of *queue*: somebody else consumes it now."""
        ...

    def insist(self, queue: MessageQueue) -> None:
        """What the memory has of *queue* is what the program wants, also where others have come further."""
        ...

    def begin(self, queue: MessageQueue, offset: int) -> None:
        """The consumer begins in *queue* at *offset*, as nothing was saved for it."""
        ...

    def is_sure(self, queue: MessageQueue) -> bool:
        """Whether nobody else can have come further in *queue* than the memory knows."""
        ...

    def close(self) -> None:
        """After everything else: leave what others may use."""
        ...


class _Memory:
    """What both stores know without asking."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}

    def memory(self, queue: MessageQueue) -> int | None:
        return self._offsets.get(queue)

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool) -> None:
        if not increase_only or offset > self._offsets.get(queue, -1):
            self._offsets[queue] = offset

    def remove(self, queue: MessageQueue) -> None:
        self._offsets.pop(queue, None)

    def insist(self, queue: MessageQueue) -> None:
        """Nobody else has a say."""

    def begin(self, queue: MessageQueue, offset: int) -> None:
        """As Java's: nothing is told before something was consumed."""

    def is_sure(self, queue: MessageQueue) -> bool:
        return True

    def close(self) -> None:
        """Nothing is kept from others."""

    def _learn(self, queue: MessageQueue, saved: int) -> int:
        """*saved* is what was saved; what the memory has already is newer."""
        self._offsets.setdefault(queue, saved)
        return saved


class RemoteOffsets(_Memory):
    """Offsets at the brokers. Told one-way in the daily round, as Java does: the next round mends what was lost.

    A member that a broker lost sight of may find that others have consumed its queues meanwhile. What it has consumed
    itself is then told only when it is more than what they have: a group does not go back, unless a program or an
    operator wants it to. For moments two members may have one queue, so the broker is also asked to see to it.
    """

    def __init__(self, core: Core, group: str) -> None:
        super().__init__()
        self._core, self._group, self._queues = core, group, QueueAccess(core)
        self._losses: dict[MessageQueue, int] = {}  # of its broker, when we last knew how far the group has come
        self._others: dict[MessageQueue, int] = {}  # where others have come further than we
        self._set: set[MessageQueue] = set()  # where a program or an operator wanted an offset, and not only progress

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool) -> None:
        before = self._offsets.get(queue)
        if not increase_only:
            self._set.add(queue)
        if before is None:
            self._losses.setdefault(queue, self._core.losses_of(queue.broker_name))
        elif offset < before and not increase_only:
            self.insist(queue)  # a step back is always meant
        super().update(queue, offset, increase_only=increase_only)

    def remove(self, queue: MessageQueue) -> None:
        super().remove(queue)
        self._losses.pop(queue, None)
        self._others.pop(queue, None)
        self._set.discard(queue)

    def insist(self, queue: MessageQueue) -> None:
        self._losses[queue] = self._core.losses_of(queue.broker_name)
        self._others.pop(queue, None)

    def is_sure(self, queue: MessageQueue) -> bool:
        return queue not in self._others and self._losses.get(queue) == self._core.losses_of(queue.broker_name)

    async def load(self) -> None:
        """Nothing: brokers are asked when a queue is taken."""

    async def read(self, queue: MessageQueue, where: ReadFrom = ReadFrom.MEMORY_FIRST) -> int | None:
        known = self._offsets.get(queue)
        if where is ReadFrom.MEMORY or (where is ReadFrom.MEMORY_FIRST and known is not None):
            return known
        offset = await self._queues.committed_offset(self._group, queue)
        if known is None:
            self.insist(queue)
        if offset is None or offset < 0:
            return None
        return self._learn(queue, offset)

    async def persist(self, queues: Iterable[MessageQueue], *, confirmed: bool = False) -> None:
        known = {queue: offset for queue in queues if (offset := self._offsets.get(queue)) is not None}
        answers: list[BaseException | None] = []
        for together in in_two_rounds(known) if confirmed else (known,):
            answers += await asyncio.gather(
                *(self._tell(queue, known[queue], confirmed) for queue in together), return_exceptions=True
            )
        for answer in answers:  # one broker that is down does not keep the others from knowing
            if answer is not None:
                raise answer

    async def _tell(self, queue: MessageQueue, offset: int, confirmed: bool) -> None:
        if self.is_sure(queue) or await self._is_ahead(queue, offset):
            increase_only = queue not in self._set
            await self._queues.commit_offset(
                self._group, queue, offset, oneway=not confirmed, increase_only=increase_only
            )

    async def _is_ahead(self, queue: MessageQueue, offset: int) -> bool:
        """Whether nobody has come further than *offset* while the broker had lost sight of us."""
        losses = self._core.losses_of(queue.broker_name)
        if self._losses.get(queue) != losses:
            saved = await self._queues.committed_offset(self._group, queue)
            self._losses[queue] = losses
            if saved is not None and saved > offset:
                self._others[queue] = saved
        if offset < self._others.get(queue, offset):
            return False
        self._others.pop(queue, None)
        return True


class LocalOffsets(_Memory):
    """Offsets in a file of this client's own. *directory* is where Apache's clients have theirs, if not given.

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
        """Those of a client with this *config*."""
        return cls(config.offsets_id, group, shares_id=config.shares_offsets_id)

    def _use(self, folder: Path) -> None:
        self.path = folder / "offsets.json"
        self._file = DurableTable(self.path, encode=encode_offsets, decode=decode_offsets)

    def begin(self, queue: MessageQueue, offset: int) -> None:
        """Saved as well: what comes while this consumer is down comes after it."""
        self.update(queue, offset, increase_only=True)

    def close(self) -> None:
        if self._claim is not None:
            self._claim.release()

    async def load(self) -> None:
        """Read the file, or its backup. StoreDamaged if neither can be read: to begin anew would be a silent loss."""
        if self._shares_id and self._claim is None:  # three calls of the system; a thread could not be cancelled
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
        """Always safe when this returns. The file keeps what it knows of other queues."""
        del confirmed
        wanted = list(queues)
        async with self._writing:
            changed = {queue: offset for queue in wanted if (offset := self._offsets.get(queue)) is not None}
            if not changed:
                return
            table = {**self._saved, **changed}
            await _to_the_end(in_thread(partial(self._file.save, table)))  # it waits for the disk
            self._saved = table


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Await *work*; when cancelled, only after it is done: a thread cannot be stopped, and must not write at the same
    time as the next one."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        if not task.cancelled() and (error := task.exception()) is not None:  # the caller hears of the cancellation
            logger.warning("offsets were not saved before the end: %s", error)
        raise


def default_directory() -> Path:
    """Where the files of this user's clients are."""
    given = os.environ.get(DIRECTORY_VARIABLE)
    if given:
        return Path(given)
    try:
        return Path.home() / ".rocketmq_offsets"
    except RuntimeError as error:
        raise MQError(
            f"no home directory for the offsets of broadcasting consumers; set {DIRECTORY_VARIABLE}"
        ) from error
