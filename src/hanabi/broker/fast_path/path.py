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
_NONE, _ONE_PULL, _ONE_LITE_PULL = (0, 0, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)  # how many of each of `codes`


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
        code = request_code(data, 0)
        if code in _PULLS:
            return self._pull(data, 0, code, connection)
        if code not in _SENDS or self._sends is None or (self._flushed is not None and self._flushed.is_full):
            return None, 0, _NONE
        path, counts = self._sends
        answers, at, sends, batches, declined = path.answer(data, connection)
        counts.taken += sends + batches
        taken = sends, batches, 0, 0
        if answers is not None and self._flushed is not None:
            return self._flushed.when_flushed(answers, sends + batches), at, taken
        if at == len(data):
            return answers, at, taken
        code = request_code(data, at)
        if declined and code in _SENDS:
            counts.declined[Declined(declined)] += 1
        if answers is None or code not in _PULLS:
            return answers, at, taken
        answer, end, pulls = self._pull(data, at, code, connection)
        return (answers, at, taken) if answer is None else (answers + answer, end, (sends, batches, *pulls[2:]))

    def _pull(self, data: bytes, at: int, code: int, connection: Peer) -> tuple[bytes | None, int, tuple[int, ...]]:
        if self._pulls is None:
            return None, at, _NONE
        path, counts = self._pulls
        answer = path.answer(data, at, connection)
        if isinstance(answer, Declined):
            counts.declined[answer] += 1
            return None, at, _NONE
        counts.taken += 1
        return *answer, _ONE_PULL if code == _PULL else _ONE_LITE_PULL
