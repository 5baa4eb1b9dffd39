"""Times of a queue's messages (303) in the form for 5.x clients: also as text."""

import time

import msgspec

from hanabi.wire.bodies.of_5 import QueueTimeSpan5
from hanabi.wire.bodies.offsets import QueueTimeSpan


def time_span_of_5(span: QueueTimeSpan) -> QueueTimeSpan5:
    """Return *span* with its times as text."""
    return QueueTimeSpan5(
        **msgspec.structs.asdict(span),
        consume_time_stamp_str=_in_words(span.consume_time_stamp),
        max_time_stamp_str=_in_words(span.max_time_stamp),
        min_time_stamp_str=_in_words(span.min_time_stamp),
    )


def _in_words(moment_ms: int) -> str:
    """Format a moment as Java does, in the time zone of this machine: 2026-11-16#15:41:56:711."""
    seconds, milliseconds = divmod(moment_ms, 1_000)
    return f"{time.strftime('%Y-%m-%d#%H:%M:%S', time.localtime(seconds))}:{milliseconds:03}"
