"""Lines that a supervised process prints: ready lines, its last words, and log lines with its name. Pure."""

from typing import Final

READY: Final = "ready "
LAST_WORDS: Final = "hanabi: "  # the one sentence of a start that is refused


def named(name: str, line: str) -> str:
    """Return a log line with the name of its server: a field of a JSON object, else a word in brackets."""
    if line.startswith('{"'):
        return f'{{"server":"{name}",{line[1:]}'
    return f"[{name}] {line}"


def is_sentence(line: str) -> bool:
    """Return whether *line* says why a command ended."""
    return line.startswith(LAST_WORDS)


def ending(code: int) -> str:
    """Return how a process ended, in words."""
    if code < 0:
        return f"was killed by signal {-code}"
    return f"ended with exit code {code}"
