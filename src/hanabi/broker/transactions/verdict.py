"""Decision about a pending half message. Facts in, decision out.

Agrees with TransactionalMessageServiceImpl.check (4.9.8): needDiscard, needSkip, the two kinds of immunity. Java
recognises messages of the current round by store time; after the clock was set back, it would ask about none until it
had caught up. Here the queue offset decides.
"""

import enum

from hanabi.broker.transactions.half_message import HalfMessage


class Verdict(enum.Enum):
    ASK = "ask"  # its producer for the outcome
    IMMUNE = "immune"  # its producer asked for more time than the default: move it to the end
    LATER = "later"  # it is too young, and so are all that follow
    GIVE_UP = "give up"  # checked too often, or older than the retention


def judge(half: HalfMessage, *, now_ms: int, round_end: int, timeout_ms: int, check_max: int, kept_ms: int) -> Verdict:
    """Return the decision. *round_end* is the end of the queue when the round began, *timeout_ms* the age from which a
    message is checked, *kept_ms* the retention."""
    record = half.record
    age_ms = now_ms - record.born_timestamp_ms  # by the producer's clock: may be negative
    if half.check_times >= max(check_max, 1) or age_ms > kept_ms:
        return Verdict.GIVE_UP
    if record.queue_offset >= round_end:
        return Verdict.LATER  # stored in this round, perhaps by it
    immunity_ms = half.immunity_ms
    if immunity_ms is not None:
        return Verdict.IMMUNE if age_ms < immunity_ms else Verdict.ASK
    return Verdict.LATER if 0 <= age_ms < timeout_ms else Verdict.ASK
