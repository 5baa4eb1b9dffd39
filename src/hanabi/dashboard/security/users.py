"""Local users: a file of names, roles and hashes, readable by its owner only.

A seam: broker accounts whose rights are the user's would be another class with the same `check`.
"""

import asyncio
import os
import re
from pathlib import Path
from typing import Final

import msgspec

from hanabi.dashboard.security.passwords import hashed, matches, new_password, problem_of
from hanabi.dashboard.security.roles import Role
from hanabi.errors import ConfigError, InvalidParameter

FIRST_USER: Final = "admin"
USERS_MAX: Final = 1_000
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
_HASHES_AT_ONCE: Final = 2  # each needs 32 MiB


class User(msgspec.Struct, frozen=True):
    """A user as the file keeps it."""

    role: str
    password: str  # a hash


class Users:
    """Users of the dashboard, in `users.json`."""

    def __init__(self, path: Path, log_n: int) -> None:
        self._path, self._log_n = path, log_n
        self._users = _read(path)
        self._nobody = hashed(new_password(), log_n)  # unknown users cost the same time as known ones
        self._gate = asyncio.Semaphore(_HASHES_AT_ONCE)

    def __len__(self) -> int:
        return len(self._users)

    def roles(self) -> dict[str, Role]:
        """Return the role of each user, by name."""
        return {name: Role.named(user.role) or Role.READER for name, user in sorted(self._users.items())}

    async def check(self, name: str, password: str) -> Role | None:
        """Return the role of the user with this password; None if there is none."""
        user = self._users.get(name)
        async with self._gate:
            good = await asyncio.to_thread(matches, password, user.password if user else self._nobody)
        return Role.named(user.role) if user is not None and good else None

    async def put(self, name: str, role: Role, password: str | None) -> None:
        """Create a user, or change the role and, if it is given, the password of one."""
        known = self._users.get(name)
        if not _NAME.fullmatch(name):
            raise InvalidParameter("a user name has 1 to 64 letters, digits and . _ - @")
        if password is None and known is None:
            raise InvalidParameter(f"a new user needs a password: {name} has none")
        if password is not None and (problem := problem_of(password)):
            raise InvalidParameter(problem)
        if known is None and len(self._users) >= USERS_MAX:
            raise InvalidParameter(f"there are {USERS_MAX} users already")
        kept = known.password if known else ""
        if password is not None:
            async with self._gate:
                kept = await asyncio.to_thread(hashed, password, self._log_n)
        self._save({**self._users, name: User(role=role.title, password=kept)})

    def delete(self, name: str) -> None:
        """Delete a user."""
        if name not in self._users:
            raise InvalidParameter(f"there is no user {name}")
        self._save({key: user for key, user in self._users.items() if key != name})

    def _save(self, users: dict[str, User]) -> None:
        if not any(user.role == Role.ADMINISTRATOR.title for user in users.values()):
            raise InvalidParameter("the last administrator must stay one")
        write_private(self._path, msgspec.json.format(msgspec.json.encode(users)))
        self._users = users


async def first_administrator(users: Users, password_file: Path | None) -> str | None:
    """Create the first administrator if there is no user; return its password if it was made here."""
    if len(users):
        return None
    if password_file is None:
        password = new_password()
        await users.put(FIRST_USER, Role.ADMINISTRATOR, password)
        return password
    try:
        given = (await asyncio.to_thread(password_file.read_text)).strip("\r\n")
        await users.put(FIRST_USER, Role.ADMINISTRATOR, given)
    except (OSError, UnicodeDecodeError, InvalidParameter) as error:
        raise ConfigError(f"--password-file {password_file}: {error}") from error
    return None


def write_private(path: Path, data: bytes) -> None:
    """Replace a file that only its owner may read."""
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _read(path: Path) -> dict[str, User]:
    try:
        users = msgspec.json.decode(path.read_bytes(), type=dict[str, User])
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path} is not a file of users: {error}; move it away to begin with a new one") from error
    for name, user in users.items():
        if Role.named(user.role) is None or user.password.count("$") != 3:
            raise ConfigError(f"{path}: user {name} has no role or password that can be read")
    return users
