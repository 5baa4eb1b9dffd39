"""Replies that wait for the disk (SYNC_FLUSH): messages are stored as quickly, and answered when they are flushed.

    read ─> all sends of it are stored ─┐
    read ─> all sends of it are stored ─┴─> one flush ─> the replies to each read, in one piece

All that one iteration of the loop stored waits for one flush, as in the handlers. Pulls do not wait.
"""

import asyncio
from functools import partial
from typing import Final

from hanabi.broker.send.intake import Intake
from hanabi.broker.send.put_replies import STORED
from hanabi.remoting.connection.dispatch import LateAnswers
from hanabi.store.message_store import PutStatus
from hanabi.wire.codes import ResponseCode
from hanabi.wire.command import decode_command, encode_reply_head
from hanabi.wire.frame import FrameDecoder

WAITING_MAX: Final = 20_000  # sends: some megabytes of replies; the next ones go to the handlers


class AnswersOnFlush:
    """Holds replies until their messages are on the disk."""

    def __init__(self, intake: Intake) -> None:
        self._intake, self._waiting = intake, 0

    @property
    def is_full(self) -> bool:
        """Whether no more may wait."""
        return self._waiting >= WAITING_MAX

    def when_flushed(self, answers: bytes, count: int) -> LateAnswers:
        """Return what will be the replies to *count* sends that were stored just now."""
        later: LateAnswers = asyncio.get_running_loop().create_future()
        self._waiting += count
        flushed = self._intake.flush_of_turn(self._intake.store.max_log_offset)
        flushed.add_done_callback(partial(self._answer, later, answers, count))
        return later

    def _answer(self, later: LateAnswers, answers: bytes, count: int, flushed: asyncio.Future[PutStatus]) -> None:
        self._waiting -= count
        if not later.cancelled():
            code = STORED[flushed.result()]
            later.set_result((code, answers if code == ResponseCode.SUCCESS else _with_code(answers, code)))


def _with_code(answers: bytes, code: int) -> bytes:
    """Return replies that say success as they are with another *code*."""
    replies = map(decode_command, FrameDecoder().feed(answers))
    return b"".join(encode_reply_head(reply, code, reply.remark, reply.fields()) for reply in replies)
