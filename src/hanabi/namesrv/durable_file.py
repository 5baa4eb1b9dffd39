"""A small file that is replaced as a whole, so that a crash leaves the old content or the new, never a mixture.

    write NAME.tmp, fsync  →  NAME becomes NAME.bak  →  NAME.tmp becomes NAME  →  fsync the folder

The names are those of Java's MixAll.string2File, so that each side finds the other's backup. Between the two renames
there is no NAME at all: a reader then takes NAME.bak, which is the content last acknowledged.
"""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hanabi.errors import MQError

logger = logging.getLogger(__name__)
T = TypeVar("T")


def write_durably(path: Path, content: bytes) -> None:
    """Make *content* the content of *path*, and what it was before that of its .bak. May raise OSError."""
    temporary, backup = _beside(path, ".tmp"), _beside(path, ".bak")
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    if path.exists():
        path.replace(backup)
    temporary.replace(path)
    _sync_folder(path.parent)


def read_durably(path: Path, parse: Callable[[bytes], T]) -> T | None:
    """What *parse* makes of *path*, or of its .bak when that is missing or broken; None when neither was ever written.

    When a file is there but no file can be read, that is an error: to go on without it would be to overwrite it.
    """
    broken: list[str] = []
    for candidate in (path, _beside(path, ".bak")):
        try:
            value = parse(candidate.read_bytes())
        except FileNotFoundError:
            continue
        except (OSError, ValueError, MQError) as error:
            broken.append(f"{candidate}: {error}")
            continue
        if candidate != path:
            logger.warning("%s is used, because %s", candidate, broken[0] if broken else f"{path} is missing")
        return value
    if broken:
        raise MQError("; ".join(broken))
    return None


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _sync_folder(folder: Path) -> None:
    """Make the renames last. Windows cannot open a folder, and needs no such thing."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
