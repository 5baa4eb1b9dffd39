"""The users and policies of one broker, kept in two files that only their owner can read.

    config/users.json     username -> user
    config/acls.json      "User:name" -> policies

Apache keeps the same values in RocksDB; mqadmin copyUser and copyAcl move them from one to the other. A change is on
the disk before it is in force. Methods that change block for the disk and may be called by any thread; readers take
`users` and `acls`, which are replaced as a whole.
"""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from hanabi.access.policies.model import Acl, PolicyType, Resource, User, UserStatus, UserType
from hanabi.access.policies.wording import acl_info, read_acl, username_of
from hanabi.durable_table import DurableTable
from hanabi.errors import NoPermission
from hanabi.wire.bodies.acl import AclInfo

USERS_MAX: Final = 10_000
NAME_CHARACTERS_MAX: Final = 255
_PRIVATE: Final = 0o600


class UserChange(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of a user to change; absent ones stay."""

    password: str | None = None
    user_type: UserType | None = None
    user_status: UserStatus | None = None
    keeps_previous: bool | None = None  # the password before the new one stays valid; False: it does no longer


class Directory:
    """All users and their policies. `generation` counts the changes."""

    def __init__(self, folder: Path) -> None:
        self._user_file = DurableTable(folder / "users.json", encode=_encode_users, decode=decode_users, mode=_PRIVATE)
        self._acl_file = DurableTable(folder / "acls.json", encode=_encode_acls, decode=decode_acls, mode=_PRIVATE)
        self.users: Mapping[str, User] = self._user_file.load() or {}
        self.acls: Mapping[str, Acl] = self._acl_file.load() or {}
        self.generation = 0
        self._changing = threading.Lock()

    def acl_of(self, username: str) -> Acl:
        """Return the policies of a user; empty if there are none."""
        return self.acls.get(username, _NO_POLICIES)

    # Users

    def create_user(self, user: User) -> None:
        """Add *user*; raise NoPermission if there is one of that name."""
        _check_user(user)
        with self._changing:
            if user.username in self.users:
                raise NoPermission("The user is existed")
            if len(self.users) >= USERS_MAX:
                raise NoPermission(f"there are {USERS_MAX} users already, which is the limit")
            self._use_users({**self.users, user.username: user})

    def update_user(self, username: str, change: UserChange) -> None:
        """Change a user. A new password makes the previous one invalid, unless that is to be kept."""
        with self._changing:
            changed = self._known(username)
            if change.password:
                previous = changed.password if change.keeps_previous else None
                changed = msgspec.structs.replace(changed, password=change.password, previous_password=previous)
            elif change.keeps_previous is False:
                changed = msgspec.structs.replace(changed, previous_password=None)
            if change.user_type is not None:
                changed = msgspec.structs.replace(changed, user_type=change.user_type)
            if change.user_status is not None:
                changed = msgspec.structs.replace(changed, user_status=change.user_status)
            self._use_users({**self.users, username: changed})

    def delete_user(self, username: str) -> None:
        """Delete a user and its policies, if there is one."""
        with self._changing:
            if username in self.acls:
                self._use_acls({name: acl for name, acl in self.acls.items() if name != username})
            if username in self.users:
                self._use_users({name: user for name, user in self.users.items() if name != username})

    # Policies

    def merge_acl(self, username: str, change: Callable[[Acl], Acl]) -> None:
        """Replace the policies of a user by *change* of them."""
        with self._changing:
            if username not in self.users:
                raise NoPermission(f"The subject of User:{username} is not exist.")
            self._use_acls({**self.acls, username: change(self.acl_of(username))})

    def delete_acl(self, username: str, kind: PolicyType, resource: Resource | None) -> None:
        """Delete the entry for *resource*; all policies of the user if there is none given."""
        with self._changing:
            if username not in self.users:
                raise NoPermission("The subject is not exist.")
            if username not in self.acls:
                raise NoPermission("The acl is not exist.")
            left = Acl() if resource is None else _without(self.acls[username], kind, resource)
            others = {name: acl for name, acl in self.acls.items() if name != username}
            self._use_acls(others if left == Acl() else {**others, username: left})

    def add_migrated(self, user: User, acl: Acl) -> bool:
        """Add a user of ACL 1.0 with its policies; return False if there is one of that name."""
        if user.username in self.users:
            return False
        self.create_user(user)
        if acl != Acl():
            self.merge_acl(user.username, lambda _: acl)
        return True

    def _known(self, username: str) -> User:
        user = self.users.get(username)
        if user is None:
            raise NoPermission("The user is not exist")
        return user

    def _use_users(self, users: Mapping[str, User]) -> None:
        self._user_file.save(users)
        self.users = users
        self.generation += 1

    def _use_acls(self, acls: Mapping[str, Acl]) -> None:
        self._acl_file.save(acls)
        self.acls = acls
        self.generation += 1


_NO_POLICIES: Final = Acl()


def _check_user(user: User) -> None:
    if not user.username.strip():
        raise NoPermission("username can not be blank")
    if len(user.username) > NAME_CHARACTERS_MAX or not user.username.isprintable():
        raise NoPermission(f"username must be printable and have at most {NAME_CHARACTERS_MAX} characters")
    if not user.password.strip():
        raise NoPermission("password can not be blank")


def _without(acl: Acl, kind: PolicyType, resource: Resource) -> Acl:
    if kind is PolicyType.CUSTOM:
        return acl._replace(custom=tuple(entry for entry in acl.custom if entry.resource != resource))
    return acl._replace(default=tuple(entry for entry in acl.default if entry.resource != resource))


_user_decoder = msgspec.json.Decoder(dict[str, User])
_acl_decoder = msgspec.json.Decoder(dict[str, AclInfo])


def _encode_users(users: Mapping[str, User]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(users))


def decode_users(data: bytes) -> Mapping[str, User]:
    """Return the users of a file by name."""
    return _user_decoder.decode(data)


def _encode_acls(acls: Mapping[str, Acl]) -> bytes:
    infos = (acl_info(name, acl) for name, acl in acls.items())
    return msgspec.json.format(msgspec.json.encode({info.subject: info for info in infos}))


def decode_acls(data: bytes) -> Mapping[str, Acl]:
    """Return the policies of a file by user."""
    return {username_of(subject): read_acl(info) for subject, info in _acl_decoder.decode(data).items()}
