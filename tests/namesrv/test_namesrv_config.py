"""namesrv.conf is read as RocketMQ's, a mistake in it is named, and little of it changes over the wire."""

import logging
from pathlib import Path

import pytest

from hanabi.errors import ConfigError, MQError, NoPermission
from hanabi.namesrv.config import OURS, NamesrvConfig, as_properties, read_config
from hanabi.namesrv.limits import RouteLimits
from hanabi.namesrv.settings import CHANGEABLE, Settings
from hanabi.wire.settings_text import with_properties

SAMPLE = Path(__file__).parents[2] / "conf" / "namesrv.conf"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "namesrv.conf"
    path.write_text(text)
    return path


def test_a_file_of_rocketmq_is_read(tmp_path: Path) -> None:
    config = read_config(
        written(tmp_path, "# mine\nlistenPort = 9877 \norderMessageEnable=TRUE\nserverChannelMaxIdleTimeSeconds=60\n")
    )
    assert (config.listen_port, config.order_message_enable) == (9877, True)
    assert config.remoting().idle_seconds == 60


def test_what_a_file_does_not_say_has_rocketmqs_default(tmp_path: Path) -> None:
    assert read_config(written(tmp_path, "")) == NamesrvConfig()


def test_the_sample_file_has_every_default(caplog: pytest.LogCaptureFixture) -> None:
    assert read_config(SAMPLE) == NamesrvConfig()
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("listenPort=lots", "listenPort must be a whole number, not 'lots'"),
        ("listenPort=1e3", "listenPort must be a whole number, not '1e3'"),
        ("listenPort=9876.0", "listenPort must be a whole number, not '9876.0'"),
        ("topicsTotalMax=0", "topicsTotalMax must be a whole number >= 1, not '0'"),
        ("listenPort=70000", "listenPort must be a whole number <= 65535, not '70000'"),
        ("listenPort=", "listenPort must be a whole number, not ''"),
        ("orderMessageEnable=yes", "orderMessageEnable must be true or false, not 'yes'"),
        ("serverChannelMaxIdleTimeSeconds=0", "serverChannelMaxIdleTimeSeconds must be a whole number >= 1, not '0'"),
        ("productEnvName=\\u12", "line 1: \\\\u needs four hexadecimal digits"),
    ],
)
def test_a_bad_value_is_refused_with_its_key_and_its_file(tmp_path: Path, line: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=f"namesrv.conf: {complaint}"):
        read_config(written(tmp_path, line))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.conf: No such file"):
        read_config(tmp_path / "nowhere.conf")


def test_a_key_that_we_do_not_have_gets_one_warning_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        read_config(written(tmp_path, "needWaitForService=true\nlistenPort=1\n"))
    assert len(caplog.records) == 1
    assert "needWaitForService" in caplog.text


def test_settings_as_text_are_read_back() -> None:
    config = NamesrvConfig(listen_port=1, order_message_enable=True, product_env_name="x y")
    assert with_properties(NamesrvConfig(), as_properties(config)) == config


def test_only_the_safe_list_changes_and_the_change_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "namesrv.properties"
    settings = Settings(NamesrvConfig(), path)
    settings.update(b"orderMessageEnable = true \n")
    settings.update(b"productEnvName=test")
    assert settings.current.order_message_enable is True
    assert path.read_text() == "orderMessageEnable=true\nproductEnvName=test\n"
    assert Settings(NamesrvConfig(), path).current == settings.current
    for key in as_properties(settings.current).keys() - CHANGEABLE:
        with pytest.raises(NoPermission, match=f"config {key}:"):
            settings.update(f"{key}=1".encode())


def test_no_path_is_on_the_safe_list() -> None:
    assert not {key for key in CHANGEABLE if "Path" in key or "Home" in key or "BlackList" in key}


def test_the_black_list_of_the_file_takes_settings_off_the_safe_list(tmp_path: Path) -> None:
    config = NamesrvConfig(config_black_list="kvConfigPath;orderMessageEnable")
    settings = Settings(config, tmp_path / "namesrv.properties")
    with pytest.raises(NoPermission, match="orderMessageEnable"):
        settings.update(b"orderMessageEnable=true")
    settings.update(b"productEnvName=test")


def test_a_kept_setting_that_may_not_be_changed_is_not_obeyed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "namesrv.properties"
    path.write_text("kvConfigPath=/etc/passwd\norderMessageEnable=true\n")
    settings = Settings(NamesrvConfig(), path)
    assert settings.current == NamesrvConfig(order_message_enable=True)
    assert "kvConfigPath" in caplog.text


def test_a_change_that_cannot_be_saved_is_not_in_force(tmp_path: Path) -> None:
    settings = Settings(NamesrvConfig(), tmp_path / "namesrv.properties")
    (tmp_path / "namesrv.properties.tmp").mkdir()
    with pytest.raises(MQError, match=r"writing .* failed"):
        settings.update(b"orderMessageEnable=true")
    assert settings.current == NamesrvConfig()


def test_the_name_of_the_environment_is_a_name_and_not_a_file(tmp_path: Path) -> None:
    settings = Settings(NamesrvConfig(), tmp_path / "namesrv.properties")
    settings.update(b"productEnvName=" + b"x" * 255)
    with pytest.raises(ConfigError, match=r"productEnvName must be text of at most 255 characters, not 'xxx.{0,60}$"):
        settings.update(b"productEnvName=" + b"x" * 256)
    assert settings.current.product_env_name == "x" * 255


def test_the_settings_as_text_are_written_once_a_change(tmp_path: Path) -> None:
    settings = Settings(NamesrvConfig(), tmp_path / "namesrv.properties")
    before = settings.text()
    assert settings.text() is before
    settings.update(b"productEnvName=test")
    assert b"productEnvName=test\n" in settings.text()


def test_a_home_that_is_not_utf_8_is_shown(tmp_path: Path) -> None:
    settings = Settings(NamesrvConfig(rocketmq_home="/data/\udcff"), tmp_path / "namesrv.properties")
    assert b"rocketmqHome=/data/\\udcff\n" in settings.text()


def test_the_limits_of_the_route_table_are_settings_that_rocketmqs_tools_do_not_see(tmp_path: Path) -> None:
    config = read_config(written(tmp_path, "brokersMax=1\ntopicsPerBrokerMax=2\ntopicsTotalMax=3\n"))
    assert config.routes() == RouteLimits(brokers_max=1, topics_per_broker_max=2, topics_total_max=3)
    assert not OURS & as_properties(config).keys()
    assert NamesrvConfig().routes() == RouteLimits()
