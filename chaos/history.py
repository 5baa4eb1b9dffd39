"""What happened, one line of JSON an event. Processes that may be killed at any moment write it, each its own file.

A line is one write to a file that is opened for appending: it is with the kernel when the call returns, so killing the
writer loses nothing that it recorded. Times are those of the machine's monotonic clock, which all its processes share
and no fault of ours touches.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import msgspec

from chaos.traffic import Kind, Label


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """Something that happened at a moment."""

    at: float  # seconds


class OfMessage(Event, frozen=True, kw_only=True):
    """Something that happened to a message."""

    kind: Kind
    producer: str
    number: int

    @property
    def label(self) -> Label:
        return Label(self.kind, self.producer, self.number)


class Attempted(OfMessage, frozen=True, kw_only=True, tag="attempted"):
    """A send is about to begin."""


class Acknowledged(OfMessage, frozen=True, kw_only=True, tag="acknowledged"):
    """A broker says that it has the message; of a transaction: its first half."""

    broker: str
    queue_id: int
    offset: int
    status: str


class Failed(OfMessage, frozen=True, kw_only=True, tag="failed"):
    """A send ended without that. *maybe_stored*: an answer may have got lost."""

    maybe_stored: bool
    error: str


class Delivered(OfMessage, frozen=True, kw_only=True, tag="delivered"):
    """A listener was called. *accepted*: it takes the message, and does not ask for it again."""

    consumer: str
    topic: str  # the retry topic, where it comes from there
    broker: str
    queue_id: int
    offset: int
    accepted: bool

    @property
    def place(self) -> tuple[str, str, int, int]:
        return self.topic, self.broker, self.queue_id, self.offset


class Damaged(Event, frozen=True, kw_only=True, tag="damaged"):
    """A listener got a body that nobody sent."""

    consumer: str
    topic: str
    broker: str
    queue_id: int
    offset: int


class Returned(Event, frozen=True, kw_only=True, tag="returned"):
    """An ordered listener is about to return."""

    consumer: str
    broker: str
    queue_id: int
    offset: int


class Position(Event, frozen=True, kw_only=True, tag="position"):
    """What a broker said of a queue when it was asked. *at* is when the answer had come."""

    asked: float
    group: str
    topic: str
    broker: str
    queue_id: int
    first: int
    last: int
    committed: int | None


AnyEvent = Attempted | Acknowledged | Failed | Delivered | Damaged | Returned | Position


class Recorder:
    """Appends events to one file."""

    _encode: ClassVar = msgspec.json.Encoder().encode

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, event: AnyEvent) -> None:
        os.write(self._file, self._encode(event) + b"\n")

    def close(self) -> None:
        os.close(self._file)


class Follower:
    """Reads the files of a folder again and again, each time only what is new."""

    _decode: ClassVar = msgspec.json.Decoder(AnyEvent).decode

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}

    def new(self) -> Iterator[AnyEvent]:
        """Yield the events since the last call; a line that is not whole yet waits for the next."""
        for path in sorted(self._folder.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                whole, newline, _ = file.read().rpartition(b"\n")
            if newline:
                self._read[path] = self._read.get(path, 0) + len(whole) + 1
                for line in whole.split(b"\n"):
                    yield self._decode(line)
