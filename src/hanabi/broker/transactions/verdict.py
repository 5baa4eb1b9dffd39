"""What to do about a half message that has not ended. Facts in, decision out.

Agrees with TransactionalMessageServiceImpl.check (4.9.8): needDiscard, needSkip, the two kinds of immunity. What is new
in a round Java tells by its store time; after the clock was set back, nothing would be asked about until it had caught
up. So here it is told by the place in the queue.
"""

import enum

from hanabi.broker.transactions.half_message import HalfMessage


class Verdict(enum.Enum):
    ASK = "ask"  # its producer, how the transaction ended
    IMMUNE = "immune"  # its producer asked for more time than others have: put it behind them
    LATER = "later"  # it is too young, and so is all that follows
    GIVE_UP = "give up"  # asked too often, or older than any message is kept


def judge(half: HalfMessage, *, now_ms: int, round_end: int, timeout_ms: int, check_max: int, kept_ms: int) -> Verdict:
    """*round_end* is where the queue ended when the round began. *timeout_ms* is how old a message must be to be asked
    about, *kept_ms* how long messages are kept."""
    record = half.record
    age_ms = now_ms - record.born_timestamp_ms  # by the producer's clock: it may be negative
    if half.check_times >= max(check_max, 1) or age_ms > kept_ms:
        return Verdict.GIVE_UP
    if record.queue_offset >= round_end:
        return Verdict.LATER  # stored in this round, perhaps by it
    immunity_ms = half.immunity_ms
    if immunity_ms is not None:
        return Verdict.IMMUNE if age_ms < immunity_ms else Verdict.ASK
    return Verdict.LATER if 0 <= age_ms < timeout_ms else Verdict.ASK
