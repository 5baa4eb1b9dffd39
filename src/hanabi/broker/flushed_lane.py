"""The express lane where senders wait for the disk: messages are stored as quickly, and answered when they are there.

    read ─> all sends of it are stored ─┐
    read ─> all sends of it are stored ─┴─> one flush ─> the answers to each read, in one piece

What one turn of the loop stored waits for one flush, as by the handlers. Pulls do not wait.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from hanabi.broker.intake import Intake
from hanabi.broker.lane import Lane
from hanabi.broker.put_status import STORED
from hanabi.remoting.dispatch import LateAnswers
from hanabi.store.message_store import PutStatus
from hanabi.wire.codes import ResponseCode
from hanabi.wire.command import decode_command, encode_reply_head
from hanabi.wire.frame import FrameDecoder

AtOnce = Callable[[bytes, Any], tuple[bytes | None, int, tuple[int, ...]]]

_WAITING_MAX: Final = 20_000  # sends: some megabytes of answers; what comes meanwhile takes the other way


class FlushedLane:
    """Answers what it can of what was read; see `remoting.dispatch.Express`, which this is."""

    codes = Lane.codes

    def __init__(self, sends: AtOnce, pulls: AtOnce, intake: Intake) -> None:
        """*sends* and *pulls* are lanes for nothing else."""
        self._sends, self._pulls, self._intake = sends, pulls, intake
        self._waiting = 0

    def __call__(self, data: bytes, connection: Any, /) -> tuple[bytes | LateAnswers | None, int, tuple[int, ...]]:
        """First sends, whose answers come later; then one pull, when it is called again."""
        if self._waiting < _WAITING_MAX:
            answers, taken, counts = self._sends(data, connection)
            if answers:
                return self._when_flushed(answers, sum(counts)), taken, counts
        return self._pulls(data, connection)

    def _when_flushed(self, answers: bytes, count: int) -> LateAnswers:
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
    """*answers* that say that all is well, as they are if it is not."""
    told = map(decode_command, FrameDecoder().feed(answers))
    return b"".join(encode_reply_head(answer, code, answer.remark, answer.fields()) for answer in told)
