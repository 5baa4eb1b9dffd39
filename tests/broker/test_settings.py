"""Settings change at run time only where that can do no harm (CVE-2023-33246), all or none, and survive a restart."""

from pathlib import Path

import pytest

from hanabi.broker.config import BROKER_KEYS, BrokerConfig
from hanabi.broker.settings import CHANGEABLE, Settings
from hanabi.errors import ConfigError, NoPermission
from hanabi.store.config import STORE_KEYS, StoreConfig
from hanabi.wire.java_properties import parse_properties


def settings(path: Path | None = None, **broker: object) -> Settings:
    return Settings(BrokerConfig(broker_name="broker-a", **broker), StoreConfig(), path)  # type: ignore[arg-type]


def test_a_change_is_in_force_at_once_and_after_a_restart(tmp_path: Path) -> None:
    first = settings(tmp_path / "broker.properties")
    heard: list[int] = []
    first.on_change.append(lambda: heard.append(first.broker.permission))
    first.update("brokerPermission = 4\nfileReservedTime=12\n")
    assert heard == [4]
    for each in (first, settings(tmp_path / "broker.properties")):
        assert (each.broker.permission, each.store.file_reserved_hours) == (4, 12)


def test_what_the_file_says_is_covered_by_what_was_changed_and_nothing_else(tmp_path: Path) -> None:
    settings(tmp_path / "broker.properties").update(b"brokerPermission=4\n")
    again = settings(tmp_path / "broker.properties", permission=2, trace_on=False)
    assert (again.broker.permission, again.broker.trace_on) == (4, False)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("rocketmqHome", "no effect"),
        ("filterServerNums", "no effect"),
        ("storePathRootDir", "configuration file only"),
        ("storePathCommitLog", "configuration file only"),
        ("listenPort", "configuration file only"),
        ("namesrvAddr", "configuration file only"),
        ("brokerName", "configuration file only"),
        ("brokerIP1", "configuration file only"),
        ("brokerConfigPath", "no such setting"),
        ("x" * 1000, "no such setting"),
    ],
)
def test_what_could_do_harm_is_refused_by_name_and_nothing_changes(tmp_path: Path, key: str, why: str) -> None:
    each = settings(tmp_path / "broker.properties")
    with pytest.raises(NoPermission, match=rf"Can not update config {key[:50]}.*{why}"):
        each.update(f"brokerPermission=4\n{key}=1\n")
    assert each.broker.permission == 6
    assert not (tmp_path / "broker.properties").exists()


def test_a_bad_value_changes_nothing(tmp_path: Path) -> None:
    each = settings(tmp_path / "broker.properties")
    with pytest.raises(ConfigError, match="fileReservedTime must be a whole number"):
        each.update("brokerPermission=4\nfileReservedTime=long\n")
    assert each.broker.permission == 6
    assert not (tmp_path / "broker.properties").exists()


def test_a_forged_file_cannot_do_more_than_a_request(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "broker.properties").write_text("brokerName=evil\nbrokerPermission=4\n")
    each = settings(tmp_path / "broker.properties")
    assert (each.broker.broker_name, each.broker.permission) == ("broker-a", 4)
    assert "brokerName may not be changed at run time" in caplog.text


def test_every_changeable_key_is_one_that_we_have() -> None:
    assert BROKER_KEYS.keys() | STORE_KEYS >= CHANGEABLE


def test_nothing_changeable_is_a_path_a_port_an_address_or_a_name() -> None:
    words = ("path", "dir", "port", "addr", "ip1", "ip2", "name", "home", "plugin", "command", "role", "server")
    allowed = {"filterSupportRetry", "haFlowControlEnable"}  # a "port" and a "role" by chance
    assert [key for key in CHANGEABLE - allowed if any(word in key.lower() for word in words)] == []


def test_the_text_has_every_setting_in_force() -> None:
    each = settings()
    each.update("maxMessageSize=1024")
    shown = parse_properties(each.text())
    assert (shown["brokerName"], shown["maxMessageSize"], shown["sendMessageThreadPoolNums"]) == (
        "broker-a",
        "1024",
        "4",
    )
