"""What somebody may have meant who wrote a name that does not exist."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`: did you mean 'subscribe'?`, or nothing if no name is near. Upper and lower case do not matter."""
    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f": did you mean {by_lower[near[0]]!r}?" if near else ""
