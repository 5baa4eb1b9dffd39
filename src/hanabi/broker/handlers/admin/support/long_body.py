"""Bodies of answers with an entry for each of many queues, encoded a few hundred at a time.

Only the encoded bytes are kept: the objects would take twice the memory, and encoding all of them at once would block
the loop. An answer that exceeds the clients' limit ends with an error as soon as that is known.
"""

from typing import Any, Final

from hanabi.errors import UnknownReplyError
from hanabi.wire.fastjson import encode_body
from hanabi.wire.frame import FRAME_BYTES_MAX

CHUNK: Final = 256
ENTRY_BYTES: Final = 512  # approximate memory per entry while the answer is built, including the final join
LONGEST_BYTES: Final = 2 * FRAME_BYTES_MAX  # the same for an answer of unknown size


class LongBody:
    """Members of one map or list of a body."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._bytes = 0

    def add(self, members: Any, kind: Any) -> None:
        """Append *members*. *kind* is their type: `dict[MessageQueue, TopicOffset]`."""
        self.add_encoded(encode_body(members, kind=kind)[1:-1])

    def add_encoded(self, part: bytes) -> None:
        """Append encoded members without the brackets around them."""
        if part:
            self._parts.append(part)
            self._bytes += len(part) + 1
            if self._bytes > FRAME_BYTES_MAX:
                raise UnknownReplyError(
                    f"the answer exceeds the {FRAME_BYTES_MAX} bytes that clients read: ask for one group or topic"
                )

    def joined(self) -> bytes:
        """Return all members, separated by commas."""
        return b",".join(self._parts)

    def within(self, empty: bytes, opening: bytes) -> bytes:
        """Return *empty*, an encoded body without members, with all members inserted behind *opening*:
        `"offsetTable":{`."""
        before, opened, after = empty.partition(opening)
        return b"".join((before, opened, self.joined(), after))
