"""docs/configuration.md has every setting, with the default and the star that the code has."""

import re
from pathlib import Path

import msgspec
import pytest

from hanabi.broker.config import BROKER_KEYS, BrokerConfig
from hanabi.broker.ignored_keys import IGNORED_KEYS, NOT_TO_BE_IGNORED
from hanabi.broker.settings import CHANGEABLE
from hanabi.container.config import ContainerConfig
from hanabi.controller.config import CHANGEABLE as CONTROLLER_CHANGEABLE
from hanabi.controller.config import ControllerConfig
from hanabi.namesrv.config import KEYS, NamesrvConfig
from hanabi.namesrv.settings import CHANGEABLE as NAMESRV_CHANGEABLE
from hanabi.store.config import STORE_KEYS, StoreConfig

DOCUMENT = Path(__file__).parent.parent / "docs" / "configuration.md"
ROW = re.compile(r"\| `(?P<key>\w+)` \| (?:`(?P<default>[^`]*)`)? ?\| (?P<here>[^|]*) \| (?P<meaning>[^|]+) \|")


class Row(msgspec.Struct):
    default: str
    here: str
    meaning: str


def rows(part: str) -> dict[str, Row]:
    """Return the tables below `## part`."""
    text = DOCUMENT.read_text()
    section = text.split(f"\n## {part}\n")[1].split("\n## ")[0]
    found: dict[str, Row] = {}
    for line in section.splitlines():
        if line.startswith("| `"):
            match = ROW.fullmatch(line)
            assert match, line
            assert match["key"] not in found, f"{match['key']} is there twice"
            found[match["key"]] = Row(match["default"] or "", match["here"].strip(), match["meaning"])
    return found


BROKER, NAMESRV = rows("broker.conf"), rows("namesrv.conf")
CONTAINER, CONTROLLER = rows("broker-container.conf"), rows("controller.conf")


def defaults(config: msgspec.Struct) -> dict[str, str]:
    values = ((item.encode_name, getattr(config, item.name)) for item in msgspec.structs.fields(config))
    return {
        key: "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in values
    }


IN_FORCE = {**defaults(StoreConfig()), **defaults(BrokerConfig(broker_name="x")), "brokerName": ""}


def test_the_keys_of_a_broker_are_all_there_and_no_others() -> None:
    assert BROKER.keys() == BROKER_KEYS.keys() | STORE_KEYS | IGNORED_KEYS.keys()


def test_the_keys_of_a_name_server_are_all_there_and_no_others() -> None:
    assert NAMESRV.keys() == KEYS.keys()


@pytest.mark.parametrize("key", sorted(BROKER))
def test_a_setting_of_the_broker_is_as_the_page_says(key: str) -> None:
    row = BROKER[key]
    if key in IGNORED_KEYS:
        assert row.default == IGNORED_KEYS[key]
        assert row.here == ("stops the start" if key in NOT_TO_BE_IGNORED else "no")
    else:
        assert row.default == IN_FORCE[key]
        assert row.here.removesuffix(" *") in ("yes", "no")
        assert row.here.endswith(" *") == (key in CHANGEABLE)
    assert row.meaning.strip()


@pytest.mark.parametrize("key", sorted(NAMESRV))
def test_a_setting_of_the_name_server_is_as_the_page_says(key: str) -> None:
    assert NAMESRV[key].default == defaults(NamesrvConfig())[key]
    assert NAMESRV[key].here.endswith(" *") == (key in NAMESRV_CHANGEABLE)


def test_the_settings_of_a_container_are_as_the_page_says() -> None:
    assert {key: row.default for key, row in CONTAINER.items()} == defaults(ContainerConfig())


def test_the_settings_of_a_controller_are_as_the_page_says() -> None:
    assert {key: row.default for key, row in CONTROLLER.items()} == defaults(ControllerConfig())
    assert {key for key, row in CONTROLLER.items() if row.here.endswith(" *")} == CONTROLLER_CHANGEABLE


def test_what_the_page_says_has_no_effect_is_read_by_nobody() -> None:
    """And what it says has one is read by somebody: a setting is an attribute, and its name is in the code."""
    source = Path(__file__).parent.parent / "src" / "hanabi"
    code = "".join(
        path.read_text()
        for folder in ("broker", "store", "replication", "namesrv", "remoting", "cli")
        for path in sorted((source / folder).rglob("*.py"))
        if path.name != "settings_in_force.py"
    )
    read = set(re.findall(r"\.(\w+)", code))
    shown = {"rocketmq_home", "config_store_path"}
    for config, table in ((BrokerConfig, BROKER), (StoreConfig, BROKER), (NamesrvConfig, NAMESRV)):
        for item in msgspec.structs.fields(config):
            if item.name not in shown and item.name != "product_env_name":  # shown to operators, which is its effect
                is_honoured = table[item.encode_name].here.startswith("yes")
                assert is_honoured == (item.name in read), item.encode_name
