"""Groups come into being by Apache's rule, and their file is Apache's byte for byte."""

from pathlib import Path

import msgspec
import pytest

from hanabi.broker.config import BrokerConfig
from hanabi.broker.settings import Settings
from hanabi.broker.tables.groups import GROUPS_AT_START, Groups
from hanabi.errors import NoPermission
from hanabi.store.config import StoreConfig
from hanabi.testing.clock import ManualClock
from hanabi.wire.bodies.groups import SubscriptionGroupConfig
from tests.broker.tables.test_topics import golden_config


def groups(path: Path | None = None, **broker: object) -> Groups:
    config = BrokerConfig(**{"broker_name": "broker-a", **broker})  # type: ignore[arg-type]
    return Groups(path, Settings(config, StoreConfig()), ManualClock())


@pytest.mark.parametrize("store", ["store-clean", "store-crashed-slave"])
def test_a_file_of_apache_is_written_again_byte_for_byte(tmp_path: Path, store: str) -> None:
    golden = golden_config(store, "subscriptionGroup.json")
    path = tmp_path / "subscriptionGroup.json"
    path.write_bytes(golden)
    table = groups(path)
    assert table.known("cg_sql") is not None
    path.unlink()
    table.save()
    assert path.read_bytes() == golden


def test_a_group_is_made_when_it_is_first_asked_for(tmp_path: Path) -> None:
    table = groups(tmp_path / "g.json")
    assert set(table.names()) == set(GROUPS_AT_START)
    assert table.known("billing") is None
    made = table.find("billing")
    assert made == SubscriptionGroupConfig(group_name="billing")
    assert table.find("billing") is made
    assert table.data_version.counter == 1
    assert groups(tmp_path / "g.json").table() == table.table()


def test_with_creation_off_only_groups_of_the_system_are_made() -> None:
    table = groups(auto_create_group=False)
    assert table.find("billing") is None
    assert table.find("CID_RMQ_SYS_TRANS") is not None


@pytest.mark.parametrize("name", ["", "a b", "a" * 256, "né"])
def test_a_name_that_no_group_can_have_makes_no_group(name: str) -> None:
    assert groups().find(name) is None


def test_the_number_of_groups_is_bounded() -> None:
    table = groups(groups_max=8)
    assert table.find("a") is not None
    assert table.find("b") is None
    with pytest.raises(NoPermission, match="groupsMax = 8"):
        table.update(SubscriptionGroupConfig(group_name="b"))


def test_a_group_can_be_changed_disabled_and_deleted(tmp_path: Path) -> None:
    table = groups(tmp_path / "g.json")
    config = SubscriptionGroupConfig(group_name="g", retry_max_times=3)
    table.update(config)
    table.disable_consume("g")
    table.disable_consume("g")
    table.disable_consume("unknown")
    assert table.data_version.counter == 2
    assert groups(tmp_path / "g.json").known("g") == msgspec.structs.replace(config, consume_enable=False)
    table.delete("g")
    table.delete("g")
    assert groups(tmp_path / "g.json").known("g") is None


def test_what_5_x_forbids_stays_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    path.write_text('{"dataVersion":{"counter":1,"timestamp":2},"forbiddenTable":{"g":{"t":3}}}')
    table = groups(path)
    table.find("new")
    assert b'"forbiddenTable":{\n\t\t"g":{\n\t\t\t"t":3\n\t\t}\n\t},' in path.read_bytes()
