"""Search for the first message of a time in a queue.

Brokers answer this query, but those before 5.0 return any message near it. So their answer is a hint: one or two
neighbouring messages confirm it; if it is wrong, a binary search follows.
"""

from collections.abc import Awaitable, Callable

IsOlder = Callable[[int], Awaitable[bool]]


async def first_not_older(low: int, high: int, hint: int, is_older: IsOlder) -> int:
    """Return the first of the offsets [*low*, *high*) that is not older, or *high*.

    Store times never decrease in a queue.
    """
    hint = min(max(hint, low), high)
    step = 1
    if hint < high and await is_older(hint):
        low = hint + 1
        while low < high and await is_older(probe := min(low + step, high) - 1):
            low, step = probe + 1, step * 2
        high = min(low + step, high) - 1 if low < high else high
    else:
        high = hint
        while low < high and not await is_older(probe := max(high - step, low)):
            high, step = probe, step * 2
        low = max(high - step, low) + 1 if low < high else low
    while low < high:
        middle = (low + high) // 2
        if await is_older(middle):
            low = middle + 1
        else:
            high = middle
    return low
