"""Ordinary pulls: those without a filter that find messages which came since the store was opened.

    header ─> read ─> may it read? ─> head and records in one piece ─> note, count

The decisions are those of the handler, see `pull.decisions`.
"""

from collections import Counter
from typing import Final

from hanabi.broker.fast_path._admission import Admission
from hanabi.broker.fast_path._frames import ReplyTemplate, read_pull
from hanabi.broker.fast_path.contract import Peer
from hanabi.broker.fast_path.counts import Declined
from hanabi.broker.filters.message_filter import PASSES_ALL
from hanabi.broker.pull.decisions import PullDecisions
from hanabi.remoting.connection.dispatch import Reply
from hanabi.store.read.read_ahead import ReadAhead
from hanabi.wire.headers.pull import PullMessageHeader

_FOUND_BYTES_MAX: Final = 1 << 20  # more are handed over without a copy


class FastPulls:
    """Answers ordinary pulls, one at a time."""

    def __init__(self, decisions: PullDecisions, messages: ReadAhead, template: ReplyTemplate) -> None:
        self._decisions, self._messages = decisions, messages
        self._find, self._run, self._encode = messages.find, messages.run, template.encode
        self._admission: Admission | None = None  # with access control
        self.taken = 0
        self.declined: Counter[int] = Counter()

    def guard(self, admission: Admission) -> None:
        """Take only frames that *admission* admits."""
        self._admission = admission

    def answer(self, data: bytes, at: int, connection: Peer) -> tuple[bytes, int, int] | None:
        """Answer the pull whose frame begins at *at*; return the reply, where the frame ends, and its code. None if
        there is no pull, or it is declined and nothing was done."""
        request = read_pull(data, at)
        if request is None:
            return None
        code, end, opaque, is_json, pull = request
        reply = self._answer(data, at, connection, opaque, is_json, pull) if pull is not None else Declined.HEADER
        if isinstance(reply, Declined):
            self.declined[reply] += 1
            return None
        self.taken += 1
        return reply, end, code

    def _answer(
        self, data: bytes, at: int, connection: Peer, opaque: int, is_json: bool, pull: PullMessageHeader
    ) -> bytes | Declined:
        decisions = self._decisions
        began_ms = decisions.now_ms()
        offset = pull.queue_offset
        found = self._find(pull.topic, pull.queue_id, offset, pull.max_msg_nums)
        if found is None:
            has_message = self._messages.has(pull.topic, pull.queue_id, offset)
            return Declined.STORE if has_message else Declined.NOTHING
        queue, behind_bytes = found
        run = self._run
        count, size = run.count, run.total
        if size > _FOUND_BYTES_MAX:
            return Declined.STORE
        admission, peer = self._admission, connection.peer
        if admission is not None and not admission.admits_pull(data, at, connection, pull.topic, pull.consumer_group):
            return Declined.ACCESS
        access = decisions.admit(pull, peer)
        if isinstance(access, Reply):
            return Declined.ACCESS
        group, message_filter = access
        if message_filter is not PASSES_ALL:
            return Declined.ACCESS
        suggested = decisions.suggested(group, behind_bytes)
        head = self._encode(is_json, opaque, (suggested, offset + count, queue.min_offset, queue.max_offset), size)
        decisions.note(pull, peer)
        decisions.count(pull, count, size, behind_bytes, run.last_store_ms, began_ms)
        if admission is not None:
            admission.answered(size)
        return run.behind(head)
