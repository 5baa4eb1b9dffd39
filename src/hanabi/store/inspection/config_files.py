"""The tables in `config/`: their names, and whether they can be read."""

from typing import Any

import msgspec

from hanabi.errors import RemoteProtocolError
from hanabi.store.inspection.home import StoreHome, cannot_read
from hanabi.wire.fastjson import decode_file

TABLE_BYTES_MAX = 64 << 20  # 10,000 topics are 2 MB


class ConfigFile(msgspec.Struct, rename="camel", frozen=True):
    """One file in `config/`; `problem` says why it cannot be read."""

    name: str
    bytes: int
    problem: str | None = None


def read_config_files(home: StoreHome) -> list[ConfigFile]:
    """Return all tables and their backups, by name."""
    files: list[ConfigFile] = []
    try:
        paths = sorted(path for path in home.config.iterdir() if path.name.endswith((".json", ".json.bak")))
        for path in paths:
            size = path.stat().st_size
            files.append(ConfigFile(path.name, size, _problem(path.read_bytes()) if size <= TABLE_BYTES_MAX else None))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise cannot_read(error.filename or home.config, error) from error
    return files


def known_topics(home: StoreHome) -> set[str] | None:
    """Return the topics in topics.json or its backup; None if neither can be read."""
    for name in ("topics.json", "topics.json.bak"):
        try:
            table = _parse((home.config / name).read_bytes())
        except (OSError, ValueError, RemoteProtocolError):
            continue
        if isinstance(table, dict) and isinstance(table.get("topicConfigTable"), dict):
            return set(table["topicConfigTable"])
    return None


def _parse(raw: bytes) -> Any:
    anything: Any = Any
    return decode_file(raw, anything)


def _problem(raw: bytes) -> str | None:
    try:
        _parse(raw)
    except (ValueError, RemoteProtocolError) as error:
        return str(error)
    return None
