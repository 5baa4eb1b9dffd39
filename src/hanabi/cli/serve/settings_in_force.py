"""The settings of a server, and the source of each: `hanabi serve --config`.

Reads what a start would read, and writes nothing. Secrets are not shown.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hanabi.cli.shared.output import json_line
from hanabi.cli.shared.render import cell_text, table

if TYPE_CHECKING:
    from hanabi.broker.config import BrokerConfig
    from hanabi.namesrv.config import NamesrvConfig
    from hanabi.remoting.transport.tls import TlsConfig
    from hanabi.store.config import StoreConfig

HIDDEN = "(hidden)"
_SECRET = re.compile("password|secret|token|credential|access.?key|authenticationuser", re.IGNORECASE)


class Source(StrEnum):
    """Sources of a setting; a later one wins."""

    DEFAULT = "default"
    HOME = "home"  # as it was before
    FILE = "file"
    ENVIRONMENT = "environment"
    COMMAND_LINE = "command line"
    RUN_TIME = "changed at run time"


class Setting(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the table. `note` is there where the value alone would mislead."""

    key: str
    value: str | int | float | bool | None
    source: Source = msgspec.field(name="from")
    note: str = ""


Sources = Mapping[str, Source]  # what is not in it has its default


def broker_settings(
    config: "BrokerConfig", store: "StoreConfig", sources: Sources, in_file: Mapping[str, str]
) -> list[Setting]:
    """Return the settings of the broker and its store. *in_file* is the file: some of its keys may have no effect."""
    from hanabi.broker.config import BROKER_KEYS, parse_broker_config
    from hanabi.broker.ignored_keys import IGNORED_KEYS
    from hanabi.broker.settings import stored_changes
    from hanabi.store.config import STORE_KEYS

    kept = stored_changes(Path(store.root) / "config" / "broker.properties")
    config, store = parse_broker_config(kept, config, store)
    sources = {**sources, **dict.fromkeys(kept, Source.RUN_TIME)}
    notes = {
        "brokerIP1": "" if config.advertised_host else "where it listens, or the machine's address",
        "brokerIP2": "" if config.ha_advertised_host else "as brokerIP1",
        "storePathCommitLog": "" if store.commit_log_dir else str(store.commit_log_path),
        "fastListenPortEnable": "if the port can be had" if config.fast_port_enabled is None else "",
    }
    known = [*_of_struct(config, sources, notes), *_of_struct(store, sources, notes)]
    others = {key: value for key, value in in_file.items() if key not in BROKER_KEYS and key not in STORE_KEYS}
    return [*known, *_without_effect(others, IGNORED_KEYS)]


def namesrv_settings(
    config: "NamesrvConfig", home: Path, sources: Sources, in_file: Mapping[str, str]
) -> list[Setting]:
    """Return the settings of the name server."""
    from hanabi.namesrv.config import KEYS
    from hanabi.namesrv.settings import stored_changes
    from hanabi.wire.settings_text import with_properties

    kept = stored_changes(home / "namesrv" / "namesrv.properties", config)
    config = with_properties(config, kept)
    notes = {
        "kvConfigPath": "" if config.kv_config_path else str(home / "namesrv" / "kvConfig.json"),
        "configStorePath": f"has no effect: {home / 'namesrv' / 'namesrv.properties'}",
        "rocketmqHome": "has no effect",
    }
    known = _of_struct(config, {**sources, **dict.fromkeys(kept, Source.RUN_TIME)}, notes)
    return [*known, *_without_effect({key: value for key, value in in_file.items() if key not in KEYS}, {})]


def tls_settings(config: "TlsConfig", in_file: Iterable[str]) -> list[Setting]:
    """Return the settings of --tls-config."""
    return list(_of_struct(config, dict.fromkeys(in_file, Source.FILE), {}))


def struct_settings(config: msgspec.Struct, sources: Sources) -> list[Setting]:
    """Return the settings of one struct."""
    return list(_of_struct(config, sources, {}))


def process_settings(values: Mapping[str, Any], given: Iterable[str]) -> list[Setting]:
    """Options that belong to no file; *given* are those that stand on the command line."""
    sources = dict.fromkeys(given, Source.COMMAND_LINE)
    return [Setting(key, _plain(value), sources.get(key, Source.DEFAULT)) for key, value in values.items()]


def _of_struct(config: msgspec.Struct, sources: Sources, notes: Mapping[str, str]) -> Iterator[Setting]:
    for item in msgspec.structs.fields(config):
        key, value = item.encode_name, getattr(config, item.name)
        yield Setting(key, _shown(key, value), sources.get(key, Source.DEFAULT), notes.get(key, ""))


def _without_effect(properties: Mapping[str, str], known: Mapping[str, str]) -> Iterator[Setting]:
    for key, value in properties.items():
        note = "has no effect here" if key in known else "not a setting of this server: no effect"
        yield Setting(key, _shown(key, value), Source.FILE, note)


def _shown(key: str, value: object) -> str | int | float | bool | None:
    return HIDDEN if value and _SECRET.search(key) else _plain(value)


def _plain(value: object) -> str | int | float | bool | None:
    if value is None or isinstance(value, int | float):
        return value
    return str(value)


def as_table(sections: Mapping[str, list[Setting]]) -> str:
    """Return the settings as text."""
    rows = [
        (name, setting.key, cell_text(_word(setting.value)), setting.source.value, setting.note or None)
        for name, settings in sections.items()
        for setting in settings
    ]
    return table(("part", "setting", "value", "from", "note"), rows)


def _word(value: str | int | float | bool | None) -> str | None:
    """Return a value as the file has it: true, and not yes."""
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def as_json(sections: Mapping[str, list[Setting]]) -> str:
    """Return the settings as JSON: {"broker": [{"key": ..., "value": ..., "from": ..., "note": ...}, ...], ...}."""
    return json_line(sections)
