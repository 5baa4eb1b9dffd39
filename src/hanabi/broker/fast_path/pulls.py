"""Ordinary pulls: those without a filter that find messages which came since the store was opened.

    header ─> read ─> may it read? ─> head and records in one piece ─> note, count

The decisions are the handler's own methods, see `contract.PullDecisions`.
"""

from typing import Final

from hanabi.broker.fast_path._frames import ReplyTemplate, read_pull
from hanabi.broker.fast_path.contract import Peer, PullDecisions
from hanabi.broker.fast_path.counts import Declined
from hanabi.broker.filters.message_filter import PASSES_ALL
from hanabi.remoting.connection.dispatch import Reply
from hanabi.store.read.read_ahead import ReadAhead

_FOUND_BYTES_MAX: Final = 1 << 20  # more are handed over without a copy


class FastPulls:
    """Answers ordinary pulls, one at a time."""

    def __init__(self, decisions: PullDecisions, messages: ReadAhead, template: ReplyTemplate) -> None:
        self._decisions, self._messages, self._template = decisions, messages, template

    def answer(self, data: bytes, at: int, connection: Peer) -> bytes | Declined:
        """Answer the pull whose frame begins at *at*. If it is declined, nothing was done."""
        request = read_pull(data, at)
        if request is None:
            return Declined.HEADER
        _, opaque, is_json, pull = request
        decisions, peer = self._decisions, connection.peer
        began_ms = decisions.now_ms()
        found = self._messages.find(pull.topic, pull.queue_id, pull.queue_offset, pull.max_msg_nums)
        if found is None:
            has_message = self._messages.has(pull.topic, pull.queue_id, pull.queue_offset)
            return Declined.STORE if has_message else Declined.NOTHING
        result, run = found
        if result.size > _FOUND_BYTES_MAX:
            return Declined.STORE
        access = decisions.admit(pull, peer)
        if isinstance(access, Reply) or access.filter is not PASSES_ALL:
            return Declined.ACCESS
        numbers = decisions.suggested(access.group, result), result.next_offset, result.min_offset, result.max_offset
        decisions.note(pull, peer)
        decisions.count(pull, result, began_ms)
        return run.behind(self._template.encode(is_json, opaque, numbers, result.size))
