"""Suggestions for misspelt names."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `: did you mean 'subscribe'?`, or an empty string if no name is similar. Ignores case."""
    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f": did you mean {by_lower[near[0]]!r}?" if near else ""
