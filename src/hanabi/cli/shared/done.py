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


class BrokersForgotten(Done, frozen=True, kw_only=True):
    """The controllers have forgotten these replicas of a broker name; all of them, if there are no ids."""

    broker: str
    ids: list[int]


class KeyForgotten(Done, frozen=True, kw_only=True):
    """The name servers have forgotten a key."""

    namespace: str
    key: str


class LettersSaved(Done, frozen=True, kw_only=True):
    """Dead letters are in a file."""

    group: str
    file: str
    messages: int


class UserChanged(Done, frozen=True, kw_only=True):
    """A user, an account or its policies are changed at these brokers."""

    user: str
    brokers: list[str]


class UsersCopied(Done, frozen=True, kw_only=True):
    """These users, or their policies, are copied from one broker to another."""

    users: list[str]
    source: str
    target: str


class FileChecked(Done, frozen=True, kw_only=True):
    """A file of access control was read: accounts or users in it, and what is doubtful about them."""

    file: str
    users: int
    findings: list[str]
