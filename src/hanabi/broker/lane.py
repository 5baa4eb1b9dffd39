"""The express lane: plain sends and pulls, from the bytes that were read to the bytes of the answers.

The way through `remoting.dispatch` and `handlers` is what it must agree with, for every frame: it answers the same,
byte for byte, and stores the same, or it stops before anything of that frame is done, and the handlers have the frame
and those behind it. So whatever is unusual may be left to them, and most of it is.

This is the lane where nothing is compiled, and the one to read: `_speedups` and `_pulls` have the same in Cython.
"""

from typing import Any, Final

from hanabi.broker.plain_sends import PlainSends
from hanabi.wire.codes import RequestCode

_SEND, _BATCH = int(RequestCode.SEND_MESSAGE_V2), int(RequestCode.SEND_BATCH_MESSAGE)
_PULL, _LITE_PULL = int(RequestCode.PULL_MESSAGE), int(RequestCode.LITE_PULL_MESSAGE)
_LENGTH_BYTES: Final = 4


class Lane:
    """Answers what it can of what was read; see `remoting.dispatch.Express`, which this is."""

    codes = (_SEND, _BATCH, _PULL, _LITE_PULL)

    def __init__(self, sends: PlainSends | None, pulls: Any) -> None:
        """Each may be None; *pulls* is a `PlainPulls`."""
        self._sends, self._pull = sends, None if pulls is None else pulls.answer

    def __call__(self, data: bytes, connection: Any, /) -> tuple[bytes | None, int, tuple[int, ...]]:
        """The answers to the frames at the start of *data*, how many bytes of it these were, and how many there were of
        each of `codes`. First sends, all that can be taken in one run; then one pull, as its answer may be long."""
        answers, at, sends, batches = self._sends.answer(data, connection) if self._sends else (None, 0, 0, 0)
        body = at + _LENGTH_BYTES
        if self._pull is None or body > len(data):
            return answers, at, (sends, batches, 0, 0)
        size = int.from_bytes(data[at:body])
        found = self._pull(data, body, size, connection) if body + size <= len(data) else None
        if found is None:
            return answers, at, (sends, batches, 0, 0)
        code, answer = found
        counts = (sends, batches, int(code == _PULL), int(code == _LITE_PULL))
        return answer if answers is None else answers + answer, body + size, counts
