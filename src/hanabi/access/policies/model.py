"""Users, resources and policy entries of ACL 2.0. Values only.

Topic:orders        LITERAL          Topic:*        ANY of its kind
Topic:ord*          PREFIXED         *              each resource
"""

from enum import IntEnum, StrEnum
from ipaddress import IPv4Network, IPv6Network
from typing import Final, NamedTuple

import msgspec

from hanabi.access.address import Address
from hanabi.access.needs import Action, Kind, Need

Network = IPv4Network | IPv6Network

# In the order of Apache's enum, in which replies list them.
ACTION_WORDS: Final = {
    "All": Action.ALL,
    "Pub": Action.PUB,
    "Sub": Action.SUB,
    "Create": Action.CREATE,
    "Update": Action.UPDATE,
    "Delete": Action.DELETE,
    "Get": Action.GET,
    "List": Action.LIST,
}


class UserType(StrEnum):
    """Super users pass every check."""

    SUPER = "Super"
    NORMAL = "Normal"


class UserStatus(StrEnum):
    """A disabled user is refused."""

    ENABLE = "enable"
    DISABLE = "disable"


class PolicyType(StrEnum):
    """Entries of the type Default count where no entry of the type Custom matches."""

    CUSTOM = "Custom"
    DEFAULT = "Default"


class User(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One user. The previous password is valid while the new one replaces it."""

    username: str
    password: str
    user_type: UserType = UserType.NORMAL
    user_status: UserStatus = UserStatus.ENABLE
    previous_password: str | None = None

    @property
    def secrets(self) -> tuple[bytes, ...]:
        """Return the passwords that are valid."""
        passwords = (self.password, self.previous_password)
        return tuple(password.encode() for password in passwords if password)

    def __repr__(self) -> str:
        return f"User({self.username!r})"


class Pattern(IntEnum):
    """Kinds of names, the most specific first."""

    LITERAL = 0
    PREFIXED = 1
    ANY = 2


class Resource(NamedTuple):
    """A resource of an entry. Kind None is each resource."""

    kind: Kind | None
    pattern: Pattern
    name: str = ""

    def matches(self, need: Need) -> bool:
        """Return whether the resource of *need* is one of these."""
        if self.kind is None:
            return True
        if self.kind is not need.kind:
            return False
        if self.pattern is Pattern.LITERAL:
            return need.name == self.name
        return self.pattern is Pattern.ANY or need.name.startswith(self.name)

    @property
    def rank(self) -> tuple[bool, Pattern, int]:
        """Return the place of this resource among those that match: the smallest decides."""
        return self.kind is None, self.pattern, -len(self.name)

    def __str__(self) -> str:
        if self.kind is None:
            return "*"
        return f"{self.kind}:{self.name}{'' if self.pattern is Pattern.LITERAL else '*'}"


class Entry(NamedTuple):
    """Permission or prohibition of actions on a resource. No source means each address."""

    resource: Resource
    actions: Action
    allows: bool
    sources: tuple[Network, ...] = ()
    source_texts: tuple[str, ...] = ()  # as they were written

    def matches(self, need: Need, address: Address | None) -> bool:
        """Return whether this entry is about *need* from *address*."""
        if not self.actions & need.actions or not self.resource.matches(need):
            return False
        return not self.sources or (address is not None and any(address in source for source in self.sources))


class Acl(NamedTuple):
    """All entries of one subject, each resource once in each type."""

    custom: tuple[Entry, ...] = ()
    default: tuple[Entry, ...] = ()
