"""Due time of a timer message: the rules of TIMER_DELIVER_MS, TIMER_DELAY_SEC and TIMER_DELAY_MS.

The broker writes the time into TIMER_OUT_MS, rounded down to the precision: a message with 12:00:00 in it is due after
12:00:00.000 and not after 12:00:01.000. Apache delivers at the end of that second; here the sender's own properties
give the moment within it. Agrees with 5.3.3's HookUtils.transformTimerMessage. Pure.
"""

import re
from collections.abc import Mapping
from typing import Final

from hanabi.wire.message import property_names as names
from hanabi.wire.message.properties import find_property

PRECISION_MS: Final = 1_000  # Apache: timerPrecisionMs

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_LONG_MAX: Final = 2**63 - 1


def java_long(text: str) -> int | None:
    """Return *text* as Java's Long.parseLong reads it; None where that throws."""
    if _NUMBER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -_LONG_MAX <= number <= _LONG_MAX else None


def requested_ms(properties: Mapping[str, str], now_ms: int) -> int | None:
    """Return the moment that the sender asked for; None if the property is not a number."""
    if (seconds := properties.get(names.TIMER_DELAY_SEC)) is not None:
        number = java_long(seconds)
        return None if number is None else now_ms + number * 1_000
    if (delay := properties.get(names.TIMER_DELAY_MS)) is not None:
        number = java_long(delay)
        return None if number is None else now_ms + number
    return java_long(properties.get(names.TIMER_DELIVER_MS, ""))


def timer_out_ms(deliver_ms: int) -> int:
    """Return the TIMER_OUT_MS of a message that is due at *deliver_ms*."""
    return (deliver_ms - 1) // PRECISION_MS * PRECISION_MS


def due_ms(properties: bytes, store_ms: int) -> int | None:
    """Return the due time of a message of the timer topic, stored at *store_ms*; None if it has no time."""
    written = java_long(find_property(properties, b"TIMER_OUT_MS") or "")
    if written is None:
        return None
    latest = written + PRECISION_MS
    if (text := find_property(properties, b"TIMER_DELAY_SEC")) is not None:
        delay, unit, start = java_long(text), 1_000, store_ms
    elif (text := find_property(properties, b"TIMER_DELAY_MS")) is not None:
        delay, unit, start = java_long(text), 1, store_ms
    else:
        delay, unit, start = java_long(find_property(properties, b"TIMER_DELIVER_MS") or ""), 1, 0
    if delay is None:
        return latest
    exact = start + delay * unit
    # A message that was stored again in between has a later start; TIMER_OUT_MS decides.
    return exact if written < exact <= latest else latest


def examine_ms(due: int, store_ms: int, window_ms: int) -> int:
    """Return when to look at a message: when it is due, or before its part of the log expires.

    In the second case it is stored again. As TimerMessageStore.doEnqueue: a rest of less than a third of another window
    is divided evenly.
    """
    wait_ms = due - store_ms
    if wait_ms < window_ms:
        return due
    return store_ms + (window_ms // 2 if wait_ms - window_ms < window_ms // 3 else window_ms)
