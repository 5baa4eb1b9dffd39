"""The fast path of one broker: called with what each read of a socket brought."""

import asyncio
from typing import Final

from hanabi.broker.fast_path._frames import request_code
from hanabi.broker.fast_path.contract import Answers, Peer, SendPath
from hanabi.broker.fast_path.counts import Counts
from hanabi.broker.fast_path.pulls import FastPulls
from hanabi.wire.codes import RequestCode

_SENDS: Final = int(RequestCode.SEND_MESSAGE_V2), int(RequestCode.SEND_BATCH_MESSAGE)
_PULL, _LITE_PULL = int(RequestCode.PULL_MESSAGE), int(RequestCode.LITE_PULL_MESSAGE)


class FastPath:
    """Answers the ordinary sends and pulls of a read: a `remoting.connection.dispatch.FastPath`."""

    codes = (*_SENDS, _PULL, _LITE_PULL)

    def __init__(self, sends: SendPath | None, pulls: FastPulls | None, counts: list[Counts]) -> None:
        self._answer_sends = sends.answer if sends is not None else _no_sends
        self._pulls, self.counts = pulls, counts

    def __call__(self, data: bytes, connection: Peer, /) -> Answers:
        """Answer the frames at the start of *data*: sends, as many as one run takes; then one pull, as its reply may be
        long. Replies that come later are alone in their call."""
        sends = answers, at, counts = self._answer_sends(data, connection)
        if at == len(data) or self._pulls is None or isinstance(answers, asyncio.Future):
            return sends
        code = request_code(data, at)
        found = self._pulls.answer(data, at, connection) if code in (_PULL, _LITE_PULL) else None
        if found is None:
            return sends
        reply, end = found
        counts = (*counts[:2], int(code == _PULL), int(code == _LITE_PULL))
        return reply if answers is None else answers + reply, end, counts


def _no_sends(_data: bytes, _connection: Peer) -> Answers:
    return None, 0, (0, 0, 0, 0)
