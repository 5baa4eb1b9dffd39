"""`hanabi serve --config`: the settings that a start would have, where each comes from, and nothing done."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hanabi.broker.config import BROKER_KEYS, BrokerConfig
from hanabi.broker.settings import CHANGEABLE, Settings
from hanabi.broker.tables.home_name import remember_name
from hanabi.cli.main import app
from hanabi.cli.serve.settings_in_force import HIDDEN
from hanabi.namesrv.config import KEYS
from hanabi.store.config import STORE_KEYS, StoreConfig
from tests.cli.commands import hanabi, log_as_before, refused

Section = dict[str, dict[str, Any]]


def shown(*arguments: str | Path, **variables: str) -> dict[str, Section]:
    with log_as_before():
        result = CliRunner().invoke(app, ["serve", *map(str, arguments), "--config", "--json"], env=variables)
    assert result.exit_code == 0, result.output
    return {
        part: {setting["key"]: setting for setting in settings} for part, settings in json.loads(result.stdout).items()
    }


def value_and_source(section: Section, key: str) -> tuple[object, str]:
    return section[key]["value"], section[key]["from"]


@pytest.fixture
def broker_file(tmp_path: Path) -> Path:
    path = tmp_path / "broker.conf"
    path.write_text(
        "brokerName=from-file\nlistenPort=12345\nfileReservedTime=48\nsendMessageThreadPoolNums=16\nnoSuchKey=1\n"
        "aclSecretKey=hunter2\n"
    )
    return path


def test_a_home_that_was_served_keeps_its_name_unless_the_file_says_another(tmp_path: Path, broker_file: Path) -> None:
    home, nameless = tmp_path / "home", tmp_path / "nameless.conf"
    nameless.write_text("listenPort=12345\n")
    assert value_and_source(shown("broker", "-c", nameless, "--home", home)["broker"], "brokerName")[1] == "default"
    assert value_and_source(shown("--home", home)["broker"], "brokerName") == ("broker-a", "default")
    (home / "config").mkdir(parents=True)
    remember_name(home, "as-before")
    for options in (("broker", "-c", nameless), ("broker",), ()):
        section = shown(*options, "--home", home)["broker"]
        assert value_and_source(section, "brokerName") == ("as-before", "home")
    section = shown("broker", "-c", broker_file, "--home", home)["broker"]
    assert value_and_source(section, "brokerName") == ("from-file", "file")


def test_each_setting_says_where_it_comes_from(tmp_path: Path, broker_file: Path) -> None:
    home = tmp_path / "home"
    settings = Settings(
        BrokerConfig(broker_name="broker-a"), StoreConfig(root=str(home)), home / "config" / "broker.properties"
    )
    settings.update("fileReservedTime=24\ndeleteWhen=05")
    broker = shown("broker", "-c", broker_file, "--home", home, "--advertise", "b.example.org:4711", "-n", "n:9876")[
        "broker"
    ]
    assert broker.keys() >= BROKER_KEYS.keys() | STORE_KEYS
    assert value_and_source(broker, "brokerName") == ("from-file", "file")
    assert value_and_source(broker, "listenPort") == (12345, "file")
    assert value_and_source(broker, "brokerClusterName") == ("DefaultCluster", "default")
    assert value_and_source(broker, "storePathRootDir") == (str(home), "command line")
    assert value_and_source(broker, "brokerIP1") == ("b.example.org", "command line")
    assert value_and_source(broker, "advertisedPort") == (4711, "command line")
    assert value_and_source(broker, "namesrvAddr") == ("n:9876", "command line")
    assert value_and_source(broker, "fileReservedTime") == (24, "changed at run time")
    assert value_and_source(broker, "deleteWhen") == ("05", "changed at run time")
    assert value_and_source(broker, "flushDiskType") == ("ASYNC_FLUSH", "default")
    assert broker["sendMessageThreadPoolNums"]["note"] == "has no effect here"
    assert broker["noSuchKey"]["note"] == "not a setting of this server: no effect"


def test_what_the_environment_says_is_told_as_such(tmp_path: Path) -> None:
    broker = shown("broker", "--home", tmp_path / "x", NAMESRV_ADDR="somewhere:9876")["broker"]
    assert value_and_source(broker, "namesrvAddr") == ("somewhere:9876", "environment")


def test_a_port_of_the_command_line_wins_over_that_of_the_file(tmp_path: Path, broker_file: Path) -> None:
    broker = shown("broker", "-c", broker_file, "--home", tmp_path / "x", "--port", "0")["broker"]
    assert value_and_source(broker, "listenPort") == (0, "command line")


def test_both_servers_and_the_process_are_shown(tmp_path: Path) -> None:
    home = tmp_path / "home"
    sections = shown("--home", home, "--namesrv-port", "1234", "--metrics-port", "9464", "--log-json")
    assert list(sections) == ["broker", "namesrv", "process"]
    assert value_and_source(sections["broker"], "brokerName") == ("broker-a", "default")
    assert value_and_source(sections["namesrv"], "listenPort") == (1234, "command line")
    assert sections["namesrv"].keys() >= KEYS.keys()
    process = sections["process"]
    assert value_and_source(process, "--metrics-port") == (9464, "command line")
    assert value_and_source(process, "--metrics-host") == ("127.0.0.1", "default")
    assert value_and_source(process, "--log-json") == (True, "command line")
    assert value_and_source(process, "--log-level") == ("info", "default")
    assert value_and_source(process, "--log-dir") == (str(home / "logs"), "default")
    assert value_and_source(process, "--home") == (str(home), "command line")


def test_a_name_server_shows_what_was_changed_and_kept(tmp_path: Path) -> None:
    kept = tmp_path / "namesrv" / "namesrv.properties"
    kept.parent.mkdir()
    kept.write_text("productEnvName=blue\nkvConfigPath=/etc/passwd\n")
    file = tmp_path / "namesrv.conf"
    file.write_text("serverChannelMaxIdleTimeSeconds=60\n")
    namesrv = shown("namesrv", "--home", tmp_path, "-c", file)["namesrv"]
    assert value_and_source(namesrv, "productEnvName") == ("blue", "changed at run time")
    assert value_and_source(namesrv, "serverChannelMaxIdleTimeSeconds") == (60, "file")
    assert value_and_source(namesrv, "kvConfigPath") == ("", "default")
    assert namesrv["kvConfigPath"]["note"] == str(tmp_path / "namesrv" / "kvConfig.json")


def test_secrets_are_hidden_in_both_forms(tmp_path: Path, broker_file: Path) -> None:
    tls = tmp_path / "tls.properties"
    tls.write_text("tls.server.mode=disabled\ntls.server.keyPassword=swordfish\n")
    arguments = ("broker", "-c", str(broker_file), "--home", str(tmp_path / "x"), "--tls-config", str(tls), "--config")
    for more in ((), ("--json",)):
        with log_as_before():
            result = CliRunner().invoke(app, ["serve", *arguments, *more])
        assert result.exit_code == 0
        for secret in ("swordfish", "hunter2"):
            assert secret not in result.output
        assert HIDDEN in result.stdout
    sections = shown(*arguments[:-1])
    assert value_and_source(sections["tls"], "tls.server.keyPassword") == (HIDDEN, "file")
    assert value_and_source(sections["tls"], "tls.client.keyPassword") == (None, "default")
    assert value_and_source(sections["broker"], "aclSecretKey") == (HIDDEN, "file")


def test_the_table_has_a_line_for_each_setting(tmp_path: Path) -> None:
    result = hanabi("serve", "broker", "--home", str(tmp_path / "x"), "--config")
    assert result.returncode == 0
    first, *lines = result.stdout.splitlines()
    assert first.split() == ["PART", "SETTING", "VALUE", "FROM", "NOTE"]
    rows = {line.split()[1]: line.split() for line in lines}
    assert rows["fileReservedTime"][2:4] == ["72", "default"]
    assert rows["autoCreateTopicEnable"][2:4] == ["true", "default"]
    assert rows.keys() >= CHANGEABLE


def test_looking_makes_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    shown("--home", home)
    shown("broker", "--home", home)
    shown("namesrv", "--home", home)
    assert not home.exists()


def test_what_would_stop_a_start_stops_the_look(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("listenPort=many\n")
    line = refused(hanabi("serve", "broker", "-c", str(file), "--config"), 2)
    assert "listenPort must be a whole number, not 'many'" in line
    assert refused(hanabi("serve", "broker", "--json"), 2) == "--json goes with --config"
