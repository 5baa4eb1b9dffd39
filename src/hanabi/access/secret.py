"""Secrets of accounts: written in a file, or referred to there. A secret is never shown.

12345678              the secret itself
${NAME}               the environment variable NAME
${file:/run/secret}   the first line of that file
"""

import os
import re
from pathlib import Path
from typing import Final

from hanabi.errors import ConfigError

CHARACTERS_MIN: Final = 7  # of access keys and secrets, as Apache demands
_FILE_BYTES_MAX: Final = 4096
_REFERENCE: Final = re.compile(r"\$\{(file:)?([^}]+)\}")
_SAMPLES: Final = frozenset({"12345678"})  # of Apache's plain_acl.yml, tools.yml and documents


def is_sample(secret: str) -> bool:
    """Return whether this secret is published."""
    return secret in _SAMPLES


def resolved_secret(text: str, owner: str) -> str:
    """Return the secret that *text* is or refers to. An error names *owner* and the reference, never a secret."""
    reference = _REFERENCE.fullmatch(text)
    if reference is None:
        return text
    kind, name = reference.groups()
    if kind:
        return read_secret_file(Path(name), owner)
    try:
        return os.environ[name]
    except KeyError:
        raise ConfigError(f"{owner}: the environment variable {name} of its secret is not set") from None


def read_secret_file(path: Path, owner: str) -> str:
    """Return the first line of *path*. An error names *owner* and the file."""
    try:
        with path.open("rb") as file:
            return file.read(_FILE_BYTES_MAX).decode().partition("\n")[0].strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text in UTF-8"
        raise ConfigError(f"{owner}: the file {path} of its secret cannot be read: {reason}") from None
