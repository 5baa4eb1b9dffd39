"""Profiles: named clusters with their credentials, in one file that only its owner can read.

The file is $HANABI_CONFIG, or profiles.json in $XDG_CONFIG_HOME/hanabi, by default ~/.config/hanabi. A command uses
the profile of $HANABI_PROFILE (`hanabi --profile NAME` sets it), or the one that `hanabi profile use` chose; options
and the variables NAMESRV_ADDR and HANABI_ACCESS_KEY precede it.
"""

import os
import re
from pathlib import Path
from typing import Final

import msgspec

from hanabi.durable_table import replace_file
from hanabi.errors import ConfigError

FILE_VARIABLE: Final = "HANABI_CONFIG"
PROFILE_VARIABLE: Final = "HANABI_PROFILE"
OWNER_ONLY: Final = 0o600
READABLE_BY_OTHERS: Final = 0o077
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Profile(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    """One cluster: its name servers, and what a client needs to be let in."""

    namesrv: str
    access_key: str | None = None
    secret_key: str | None = None
    tls_config: str | None = None

    def __repr__(self) -> str:
        return f"Profile(namesrv={self.namesrv!r}, access_key={self.access_key!r}, secret_key=...)"


class Profiles(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """All profiles of a user, and the one in use."""

    current: str | None = None
    profiles: dict[str, Profile] = {}


def profiles_path() -> Path:
    """Return the place of the file."""
    if given := os.environ.get(FILE_VARIABLE, ""):
        return Path(given)
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base else Path.home() / ".config") / "hanabi" / "profiles.json"


def read_profiles(path: Path) -> Profiles:
    """Return the profiles in the file; none if it is missing or empty. Raise if it is damaged or too open."""
    try:
        with path.open("rb") as file:
            text, mode = file.read(), os.fstat(file.fileno()).st_mode
    except FileNotFoundError:
        return Profiles()
    except OSError as error:
        raise ConfigError(f"profiles in {path}: {error.strerror or error}") from error
    if not text:  # also the null device, for a command without profiles
        return Profiles()
    if os.name == "posix" and mode & READABLE_BY_OTHERS:
        raise ConfigError(f"profiles in {path}: other users can read its secrets; run: chmod 600 {path}")
    try:
        return msgspec.json.decode(text, type=Profiles)
    except msgspec.DecodeError as error:  # a text that shows no value of the file
        raise ConfigError(f"profiles in {path}: not as `hanabi profile` writes them; mend or delete it") from error


def write_profiles(path: Path, profiles: Profiles) -> None:
    """Replace the file by one that only its owner can read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(path, msgspec.json.format(msgspec.json.encode(profiles)) + b"\n", OWNER_ONLY)


def current_profile() -> tuple[str, Profile] | None:
    """Return the profile in use with its name; None if there is none."""
    wanted = os.environ.get(PROFILE_VARIABLE, "")
    path = profiles_path()
    known = read_profiles(path)
    name = wanted or known.current
    if not name:
        return None
    if name not in known.profiles:
        source = f"--profile or ${PROFILE_VARIABLE}" if wanted else f"profiles in {path}"
        raise ConfigError(f"{source}: {no_such(name, known)}")
    return name, known.profiles[name]


def no_such(name: str, known: Profiles) -> str:
    """Return the sentence about a profile that does not exist. Pure."""
    names = ", ".join(sorted(known.profiles))
    todo = f"known profiles: {names}" if names else "add it with: hanabi profile add NAME -n HOST:PORT"
    return f"there is no profile {name}; {todo}"


def check_name(name: str) -> None:
    """Raise ConfigError unless *name* can be the name of a profile."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"profile {name!r}: a name has at most 64 letters, digits, dots, dashes and underlines")
