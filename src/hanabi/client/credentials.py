"""Credentials of tools: from an option, the environment or a file. A secret is never part of a command line.

KEY              its secret is in the variable HANABI_SECRET_KEY
file:PATH        both are in a file, as in RocketMQ's tools.yml:   accessKey: app
                                                                   secretKey: secret-of-app
nothing          the file that the variable HANABI_CREDENTIALS names, if there is one
"""

import os
import re
from pathlib import Path
from typing import Final

from hanabi.client.config import Credentials
from hanabi.errors import ConfigError

SECRET_VARIABLE: Final = "HANABI_SECRET_KEY"  # noqa: S105 - the name of a variable
FILE_VARIABLE: Final = "HANABI_CREDENTIALS"
FILE_PREFIX: Final = "file:"
_FILE_BYTES_MAX: Final = 65_536
_LINE: Final = re.compile(r"\s*(accessKey|secretKey|securityToken)\s*[:=]\s*(\S.*?)\s*")


def find_credentials(access_key: str | None, option: str) -> Credentials | None:
    """Return the credentials that *access_key*, the value of *option*, means; None if requests are not signed."""
    if access_key is None:
        path = os.environ.get(FILE_VARIABLE, "")
        return read_credentials(Path(path)) if path else None
    if access_key.startswith(FILE_PREFIX):
        return read_credentials(Path(access_key.removeprefix(FILE_PREFIX)))
    secret = os.environ.get(SECRET_VARIABLE, "")
    if not secret:
        raise ConfigError(f"{option}: its secret must be in the variable {SECRET_VARIABLE}")
    return Credentials(access_key, secret)


def read_credentials(path: Path) -> Credentials:
    """Return the credentials in a file of the form of tools.yml, or of properties. No error shows its content."""
    try:
        with path.open("rb") as file:
            text = file.read(_FILE_BYTES_MAX).decode()
    except OSError as error:
        raise ConfigError(f"credentials in {path}: {error.strerror or error}") from error
    except UnicodeDecodeError:
        raise ConfigError(f"credentials in {path}: not text in UTF-8") from None
    found = {match[1]: match[2].strip("\"'") for line in text.splitlines() if (match := _LINE.fullmatch(line))}
    if not found.get("accessKey") or not found.get("secretKey"):
        raise ConfigError(f"credentials in {path}: it needs the lines accessKey: ... and secretKey: ...")
    return Credentials(found["accessKey"], found["secretKey"], found.get("securityToken"))
