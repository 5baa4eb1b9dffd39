"""Recall handles of timed messages, made from the form in which they wait. Pure.

Agrees with SendMessageProcessor.attachRecallHandle (5.3.3). A message without a unique key has no handle: the timer
could not find it. Nor has one of a retry topic: it belongs to its consumers.
"""

from hanabi.broker.delay.timer_rules import java_long
from hanabi.store.log.commit_log import PendingMessage
from hanabi.wire.message.properties import find_property
from hanabi.wire.recall_handle import RecallHandle
from hanabi.wire.system_names import RETRY_PREFIX, TIMER_TOPIC


def recall_handle_of(waiting: PendingMessage, broker_name: str) -> str | None:
    """Return the handle of a message as it waits in the timer topic; None if it has none."""
    if waiting.topic != TIMER_TOPIC:
        return None
    at_ms = java_long(find_property(waiting.properties, b"TIMER_OUT_MS") or "")
    topic = find_property(waiting.properties, b"REAL_TOPIC")
    key = find_property(waiting.properties, b"UNIQ_KEY")
    if at_ms is None or not topic or not key or topic.startswith(RETRY_PREFIX):
        return None
    return RecallHandle(topic, broker_name, at_ms + 1, key).encode()
