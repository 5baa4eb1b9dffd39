"""Durability of puts: on the disk (SYNC_FLUSH), and on the slaves (SYNC_MASTER).

    why_refused      before a put: too few slaves are in sync, nothing may be stored
    turn, of_turn    after it: one wait for all puts of a loop iteration, for the last byte of them

Agrees with Java's CommitLog.handleDiskFlushAndHA: a put waits for both, and if both fail the slaves' status counts.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from hanabi.errors import StoreError
from hanabi.replication.acks import Acknowledgements
from hanabi.replication.rules.put_rules import joint_status
from hanabi.store.message_store import PUT_OK, MessageStore, PutStatus

_STORE_CLOSES: Final = PutStatus.FLUSH_DISK_TIMEOUT  # flushed on the way, but unconfirmed


class Durability:
    """Waits of the puts of one broker. *acks* has the slaves; None: there are none to wait for."""

    def __init__(self, store: MessageStore, acks: Acknowledgements | None = None) -> None:
        self._store, self._acks = store, acks if acks is not None and acks.needs_waiting else None
        self.is_awaited: Final = store.is_sync or self._acks is not None  # whether puts wait at all
        self._turn: Turn | None = None  # of the current loop iteration

    def why_refused(self) -> str | None:
        """Return why nothing may be stored now by a sender that waits; None if it may."""
        return None if self._acks is None else self._acks.why_refused(self._store.max_log_offset)

    def of_turn(self, log_offset: int) -> asyncio.Future[PutStatus]:
        """Return a future for the durability of the log up to *log_offset*; it must not be cancelled."""
        return self.turn(log_offset).done()

    def turn(self, log_offset: int) -> "Turn":
        """Return the wait for the durability of the log up to *log_offset*.

        All puts of one loop iteration share one flush, one acknowledgement, and one callback from a thread.
        """
        turn = self._turn
        if turn is None:
            turn = self._turn = Turn(asyncio.get_running_loop())
            turn.loop.call_soon(self._await, turn)
        turn.end = log_offset  # offsets only grow
        return turn

    def _await(self, turn: "Turn") -> None:
        self._turn = None
        if self._acks is None:
            turn.replicated(PUT_OK)
        else:
            self._acks.wait(turn.end, turn.replicated)
        if self._store.is_sync:
            self._await_flush(turn)
        else:
            turn.flushed(PUT_OK)

    def _await_flush(self, turn: "Turn") -> None:
        loop = turn.loop

        def flushed(status: PutStatus) -> None:  # in a thread of the store's
            if not loop.is_closed():
                loop.call_soon_threadsafe(turn.flushed, status)

        try:
            self._store.await_flush(turn.end, flushed)
        except StoreError:
            turn.flushed(_STORE_CLOSES)


class Turn:
    """Puts of one loop iteration: done when both the disk and the slaves have answered.

    Callbacks are called at once then. A future takes another iteration of the loop, and is made only if asked for.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop, self.end = loop, 0
        self._callbacks: list[Callable[[PutStatus], None]] = []
        self._done: asyncio.Future[PutStatus] | None = None
        self._of_disk: PutStatus | None = None
        self._of_slaves: PutStatus | None = None

    def add_done_callback(self, then: Callable[[PutStatus], None]) -> None:
        """Call *then* at the end of it. Call this in the iteration of the puts."""
        self._callbacks.append(then)

    def done(self) -> asyncio.Future[PutStatus]:
        """Return a future for the end of it. Call it in the iteration of the puts."""
        if self._done is None:
            self._done = self.loop.create_future()
        return self._done

    def flushed(self, status: PutStatus) -> None:
        """Take the result of the flush."""
        self._of_disk = status
        self._settle()

    def replicated(self, status: PutStatus) -> None:
        """Take the result of the slaves."""
        self._of_slaves = status
        self._settle()

    def _settle(self) -> None:
        if self._of_disk is not None and self._of_slaves is not None:
            status = joint_status(self._of_disk, self._of_slaves)
            if self._done is not None:
                self._done.set_result(status)
            for then in self._callbacks:
                then(status)
