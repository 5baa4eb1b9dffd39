"""The fast path of one broker: called with what each read of a socket brought."""

from collections.abc import Callable
from typing import Final

from hanabi.broker.fast_path.contract import Answers, Peer
from hanabi.broker.fast_path.counts import Counts
from hanabi.broker.fast_path.pulls import FastPulls
from hanabi.remoting.connection.dispatch import LateAnswers
from hanabi.wire.codes import RequestCode

_PULL: Final = int(RequestCode.PULL_MESSAGE)


class FastPath:
    """Answers the ordinary sends and pulls of a read: a `remoting.connection.dispatch.FastPath`."""

    codes = tuple(
        map(int, (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, _PULL, RequestCode.LITE_PULL_MESSAGE))
    )

    def __init__(
        self, answer_sends: Callable[[bytes, Peer], Answers] | None, pulls: FastPulls | None, counts: list[Counts]
    ) -> None:
        self._answer_sends = answer_sends or _no_sends
        self._answer_pull, self.counts = pulls.answer if pulls is not None else None, counts

    def __call__(self, data: bytes, connection: Peer, /) -> Answers:
        """Answer the frames at the start of *data*: sends, as many as one run takes; then one pull, as its reply may be
        long. Replies that come later are alone in their call."""
        sends = answers, at, counts = self._answer_sends(data, connection)
        if at == len(data) or self._answer_pull is None or isinstance(answers, LateAnswers):
            return sends
        found = self._answer_pull(data, at, connection)
        if found is None:
            return sends
        reply, end, code = found
        is_lite = code != _PULL
        return reply if answers is None else answers + reply, end, (*counts[:2], int(not is_lite), int(is_lite))


def _no_sends(_data: bytes, _connection: Peer) -> Answers:
    return None, 0, (0, 0, 0, 0)
