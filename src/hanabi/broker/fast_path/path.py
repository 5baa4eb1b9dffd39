"""The fast path of one broker: called with what each read of a socket brought."""

from typing import Final

from hanabi.broker.fast_path._frames import request_code
from hanabi.broker.fast_path.contract import Peer, SendPath
from hanabi.broker.fast_path.counts import Counts, Declined
from hanabi.broker.fast_path.flushed import AnswersOnFlush
from hanabi.broker.fast_path.pulls import FastPulls
from hanabi.remoting.connection.dispatch import LateAnswers
from hanabi.wire.codes import RequestCode

_SEND, _BATCH = int(RequestCode.SEND_MESSAGE_V2), int(RequestCode.SEND_BATCH_MESSAGE)
_PULL, _LITE_PULL = int(RequestCode.PULL_MESSAGE), int(RequestCode.LITE_PULL_MESSAGE)
_SENDS: Final = (_SEND, _BATCH)
_PULLS: Final = (_PULL, _LITE_PULL)


class FastPath:
    """Answers the ordinary sends and pulls of a read: a `remoting.connection.dispatch.Express`."""

    codes = (*_SENDS, *_PULLS)

    def __init__(
        self,
        sends: tuple[SendPath, Counts] | None,
        pulls: tuple[FastPulls, Counts] | None,
        flushed: AnswersOnFlush | None,
    ) -> None:
        """*flushed* makes the replies to sends wait for the disk."""
        self._sends, self._pulls, self._flushed = sends, pulls, flushed
        self.counts = [part[1] for part in (sends, pulls) if part is not None]

    def __call__(self, data: bytes, connection: Peer, /) -> tuple[bytes | LateAnswers | None, int, tuple[int, ...]]:
        """Answer the frames at the start of *data*: sends, as many as one run takes; then one pull, as its reply may be
        long. Replies that come later are alone in their call."""
        answers, at, sends, batches = None, 0, 0, 0
        code = request_code(data, 0)
        if code in _SENDS and self._sends is not None and not (self._flushed is not None and self._flushed.is_full):
            path, counts = self._sends
            answers, at, sends, batches, declined = path.answer(data, connection)
            counts.taken += sends + batches
            if answers is not None and self._flushed is not None:
                return self._flushed.when_flushed(answers, sends + batches), at, (sends, batches, 0, 0)
            if at == len(data):
                return answers, at, (sends, batches, 0, 0)
            code = request_code(data, at)
            if declined and code in _SENDS:
                counts.declined[Declined(declined)] += 1
        if code not in _PULLS or self._pulls is None:
            return answers, at, (sends, batches, 0, 0)
        pulls, counts = self._pulls
        answer = pulls.answer(data, at, connection)
        if isinstance(answer, Declined):
            counts.declined[answer] += 1
            return answers, at, (sends, batches, 0, 0)
        counts.taken += 1
        end = at + 4 + int.from_bytes(data[at : at + 4])
        taken = sends, batches, int(code == _PULL), int(code == _LITE_PULL)
        return answer if answers is None else answers + answer, end, taken
