"""Replies that wait for the disk (SYNC_FLUSH) or for slaves (SYNC_MASTER): messages are stored as quickly, and answered
when they are durable.

    read ─> all sends of it are stored ─┐
    read ─> all sends of it are stored ─┴─> one flush, one acknowledgement ─> the replies to each read, in one piece

All that one iteration of the loop stored waits together, as in the handlers. Pulls do not wait.
"""

from functools import partial
from typing import TYPE_CHECKING, Final

from hanabi.broker.fast_path.contract import Answers, Peer
from hanabi.broker.send.durability import Turn
from hanabi.broker.send.intake import Intake
from hanabi.broker.send.put_replies import STORED
from hanabi.remoting.connection.dispatch import LateAnswers
from hanabi.store.message_store import PutStatus
from hanabi.wire.codes import ResponseCode
from hanabi.wire.command import decode_command, encode_reply_head
from hanabi.wire.frame import FrameDecoder

if TYPE_CHECKING:
    from hanabi.broker.fast_path._sends import FastSends

_Held = tuple[LateAnswers, bytes, int]  # replies to one read, and their number

WAITING_MAX: Final = 20_000  # sends: some megabytes of replies; the next ones go to the handlers


class DurableSends:
    """Sends of the fast path whose replies are held until the messages are durable."""

    def __init__(self, sends: "FastSends", intake: Intake) -> None:
        self._answer, self._intake, self._durability = sends.answer, intake, intake.durability
        self._waiting = 0
        self._turn: Turn | None = None  # the last one, and its replies
        self._held: list[_Held] = []

    def answer(self, data: bytes, connection: Peer, /) -> Answers:
        """Store the sends at the start of *data*; return what will be the replies. The handlers refuse them if too few
        slaves are in sync."""
        if self._waiting >= WAITING_MAX or self._durability.why_refused() is not None:
            return None, 0, (0, 0, 0, 0)
        answers, at, counts = self._answer(data, connection)
        return self._when_durable(answers, sum(counts)) if isinstance(answers, bytes) else None, at, counts

    def _when_durable(self, answers: bytes, count: int) -> LateAnswers:
        later = LateAnswers()
        self._waiting += count
        turn = self._durability.turn(self._intake.store.max_log_offset)
        if turn is not self._turn:
            self._turn, self._held = turn, []
            turn.add_done_callback(partial(self._settle, self._held))
        self._held.append((later, answers, count))
        return later

    def _settle(self, held: list[_Held], status: PutStatus) -> None:
        """Give the replies to all reads of a turn."""
        code = STORED[status]
        for later, answers, count in held:
            self._waiting -= count
            if not later.cancelled():
                later.set_result((code, answers if code == ResponseCode.SUCCESS else _with_code(answers, code)))


def _with_code(answers: bytes, code: int) -> bytes:
    """Return replies that say success as they are with another *code*."""
    replies = map(decode_command, FrameDecoder().feed(answers))
    return b"".join(encode_reply_head(reply, code, reply.remark, reply.fields()) for reply in replies)
