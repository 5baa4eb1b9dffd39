"""Accounts of ACL 1.0 and their rights. Values only."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hanabi.access.address import Address
from hanabi.access.needs import Action, Kind, Need
from hanabi.access.plain.white_list import WhiteList
from hanabi.wire.system_names import CLOSED_TOPICS, TIMER_TOPIC

WORDS: Final = {
    "DENY": Action.NONE,
    "PUB": Action.PUB,
    "SUB": Action.SUB,
    "PUB|SUB": Action.PUB | Action.SUB,
    "SUB|PUB": Action.PUB | Action.SUB,
}
# Messages of all topics wait in these: a default permission, which is meant for topics of users, does not open them.
_INTERNAL_TOPICS: Final = CLOSED_TOPICS | {TIMER_TOPIC}


class Account(NamedTuple):
    """One account. Two secrets are valid while one replaces the other."""

    access_key: str
    secrets: tuple[bytes, ...]
    white_list: WhiteList
    is_sample: bool = False  # its secret is published: valid on this machine only
    is_admin: bool = False
    default_topic: Action = Action.NONE
    default_group: Action = Action.NONE
    topics: Mapping[str, Action] = {}
    groups: Mapping[str, Action] = {}

    @property
    def is_unlimited(self) -> bool:
        """Return whether an administrator may do everything: one with lists has the rights in them."""
        return self.is_admin and not self.topics and not self.groups

    def is_valid_from(self, address: Address | None) -> bool:
        """Return whether the account may be used from *address*: one with a published secret only on this machine."""
        return not self.is_sample or (address is not None and address.is_loopback)

    def allows(self, need: Need) -> bool:
        """Return whether the account has one of the needed actions on the topic or the group."""
        if need.kind is Kind.GROUP:
            allowed = self.groups.get(need.name, self.default_group)
        else:
            default = Action.NONE if need.name in _INTERNAL_TOPICS else self.default_topic
            allowed = self.topics.get(need.name, default)
        return bool(allowed & need.actions)

    def described(self) -> dict[str, Any]:
        """Return the account without its secrets, as its file writes it."""
        return {
            "accessKey": self.access_key,
            "whiteRemoteAddress": ",".join(self.white_list.patterns),
            "admin": self.is_admin,
            "defaultTopicPerm": _word(self.default_topic),
            "defaultGroupPerm": _word(self.default_group),
            "topicPerms": [f"{name}={_word(actions)}" for name, actions in self.topics.items()],
            "groupPerms": [f"{name}={_word(actions)}" for name, actions in self.groups.items()],
        }

    def __repr__(self) -> str:
        return f"Account({self.access_key!r})"


def _word(actions: Action) -> str:
    return next(word for word, meaning in WORDS.items() if meaning == actions)


class Rules(NamedTuple):
    """All accounts and the addresses that need none. Replaced as a whole."""

    accounts: Mapping[str, Account] = {}
    white_list: WhiteList = WhiteList(())
