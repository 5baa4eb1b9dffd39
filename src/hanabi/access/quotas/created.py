"""Topics that accounts with a quota have created, kept in a small file."""

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from hanabi.durable_table import DurableTable


class CreatedTopics:
    """The account that created each topic, of accounts whose topics are limited. *exists*: whether a topic is there."""

    def __init__(self, path: Path, exists: Callable[[str], bool]) -> None:
        self._file = DurableTable(path, encode=_encode, decode=_decoder.decode)
        self.exists = exists
        self._creators: dict[str, str] = self._file.load() or {}
        self._is_changed = False
        self._saving = threading.Lock()

    def count(self, account: str) -> int:
        """Return how many of the topics that *account* created are still there."""
        return sum(creator == account and self.exists(topic) for topic, creator in self._creators.items())

    def created(self, topics: Iterable[str], account: str) -> None:
        """Note the creator of those of *topics* that are there now."""
        for topic in topics:
            if self.exists(topic):
                self._creators[topic] = account
                self._is_changed = True

    def forget_deleted(self) -> None:
        """Forget topics that are gone: the next creator of such a name may be another."""
        gone = [topic for topic in self._creators if not self.exists(topic)]
        for topic in gone:
            del self._creators[topic]
            self._is_changed = True

    def save(self) -> None:
        """Write the file if something changed. Blocks; any thread may call it."""
        with self._saving:
            if self._is_changed:
                self._is_changed = False
                self._file.save(dict(self._creators))


_decoder = msgspec.json.Decoder(dict[str, str])


def _encode(creators: dict[str, str]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(creators))
