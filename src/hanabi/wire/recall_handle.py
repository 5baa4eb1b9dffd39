"""Recall handles: the text in the reply to a timed send by which the message can be taken back before it is due.

URL-safe base64 of five words, one blank between them: `v1 topic brokerName timestamp uniqueKey`. The timestamp is
TIMER_OUT_MS of the stored message plus 1. Agrees with Java's RecallMessageHandle (5.3.3). Pure.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final, NamedTuple

from hanabi.errors import RemoteProtocolError

INVALID: Final = "recall handle is invalid"  # Apache's words
_VERSION: Final = "v1"
_CHARACTERS_MAX: Final = 2_048
_NUMBER_CHARACTERS_MAX: Final = 19


class RecallHandle(NamedTuple):
    """One handle, decoded. `at_ms` is -1 if the handle has no number there."""

    topic: str
    broker_name: str
    at_ms: int
    unique_key: str

    def encode(self) -> str:
        """Return the text of the handle."""
        words = f"{_VERSION} {self.topic} {self.broker_name} {self.at_ms} {self.unique_key}"
        return urlsafe_b64encode(words.encode("utf-8", "surrogateescape")).decode()


def decode_recall_handle(text: str) -> RecallHandle:
    """Return the handle in *text*; padding may be missing, as Java allows. Raise RemoteProtocolError if it is none."""
    if not 0 < len(text) <= _CHARACTERS_MAX or any(character not in _ALPHABET for character in text):
        raise RemoteProtocolError(INVALID)
    try:
        raw = urlsafe_b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))
    except ValueError as error:
        raise RemoteProtocolError(INVALID) from error
    words = raw.decode("utf-8", "replace").split(" ")
    if words[0] != _VERSION or len(words) < 5 or not all(words[1:5]):
        raise RemoteProtocolError(INVALID)
    number = words[3]
    is_number = number.isascii() and number.isdigit() and len(number) <= _NUMBER_CHARACTERS_MAX
    return RecallHandle(words[1], words[2], int(number) if is_number else -1, words[4])


_ALPHABET: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=")
