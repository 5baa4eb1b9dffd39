"""Settings that the server returns to a client: those that it sent, completed."""

from typing import Any, Final

import msgspec

from hanabi.grpc.proto.numbers import Code
from hanabi.grpc.rules.durations import POLL_MS_MAX, set_milliseconds
from hanabi.grpc.rules.faults import CallRefused
from hanabi.grpc.rules.messages import BODY_BYTES_MAX

RECEIVE_BATCH: Final = 32
SEND_ATTEMPTS: Final = 3
SUBSCRIPTIONS_MAX: Final = 1_000
EXPRESSION_CHARACTERS_MAX: Final = 16 * 1024  # of one filter expression
EXPRESSIONS_CHARACTERS_MAX: Final = 128 * 1024  # of all in one client's settings: each character is hashed
_BACKOFF_SECONDS: Final = (1, 5, 10, 30, *(60 * minutes for minutes in (*range(1, 11), 20, 30)), 3600, 7200)


class GroupFacts(msgspec.Struct, frozen=True):
    """Settings of a consumer group that clients and calls need."""

    is_ordered: bool = False
    retries_max: int = 16
    backoff_ms: tuple[int, ...] = tuple(1000 * seconds for seconds in _BACKOFF_SECONDS)

    @property
    def attempts_max(self) -> int:
        """The deliveries of a message, then it is a dead letter."""
        return self.retries_max + 1


def complete_publishing(settings: Any, *, validates_type: bool) -> None:
    """Complete the settings of a producer, in place."""
    policy = settings.backoff_policy
    policy.max_attempts = SEND_ATTEMPTS
    backoff = policy.exponential_backoff
    set_milliseconds(backoff.initial, 10)
    set_milliseconds(backoff.max, 1_000)
    backoff.multiplier = 2.0
    settings.publishing.max_body_size = BODY_BYTES_MAX
    settings.publishing.validate_message_type = validates_type
    settings.metric.on = False


def complete_subscription(settings: Any, group: GroupFacts) -> None:
    """Complete the settings of a consumer, in place."""
    policy = settings.backoff_policy
    policy.max_attempts = group.attempts_max
    del policy.customized_backoff.next[:]
    for ms in group.backoff_ms:
        set_milliseconds(policy.customized_backoff.next.add(), ms)
    subscription = settings.subscription
    subscription.fifo = group.is_ordered
    subscription.receive_batch_size = RECEIVE_BATCH
    set_milliseconds(subscription.long_polling_timeout, POLL_MS_MAX)
    settings.metric.on = False


def check_settings(settings: Any) -> None:
    """Refuse settings that are too many, or of neither kind."""
    kind = settings.WhichOneof("pub_sub")
    if kind is None:
        raise CallRefused(Code.UNRECOGNIZED_CLIENT_TYPE, "the settings are neither a producer's nor a consumer's")
    count = len(settings.publishing.topics if kind == "publishing" else settings.subscription.subscriptions)
    if count > SUBSCRIPTIONS_MAX:
        raise CallRefused(Code.BAD_REQUEST, f"{count} topics in the settings, limit {SUBSCRIPTIONS_MAX}")
    if kind == "subscription":
        sizes = [len(entry.expression.expression) for entry in settings.subscription.subscriptions]
        if max(sizes, default=0) > EXPRESSION_CHARACTERS_MAX or sum(sizes) > EXPRESSIONS_CHARACTERS_MAX:
            raise CallRefused(Code.ILLEGAL_FILTER_EXPRESSION, "the filter expressions of the settings are too long")
