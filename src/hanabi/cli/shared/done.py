"""The JSON of commands that changed something and have nothing else to show."""

import msgspec


class Done(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of them."""


class TopicDeleted(Done, frozen=True, kw_only=True):
    """A topic is gone from these brokers."""

    topic: str
    brokers: list[str]


class GroupDeleted(Done, frozen=True, kw_only=True):
    """A group is gone from these brokers."""

    group: str
    brokers: list[str]


class Cleaned(Done, frozen=True, kw_only=True):
    """These brokers have cleaned up, or soon will have."""

    cleaned: str
    brokers: list[str]


class KeyForgotten(Done, frozen=True, kw_only=True):
    """The name servers have forgotten a key."""

    namespace: str
    key: str


class LettersSaved(Done, frozen=True, kw_only=True):
    """Dead letters are in a file."""

    group: str
    file: str
    messages: int
