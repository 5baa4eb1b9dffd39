"""namesrv.conf is read as RocketMQ's, a mistake in it is named, and little of it changes over the wire."""

import logging
from pathlib import Path

import pytest

from hanabi.errors import ConfigError, MQError, NoPermission
from hanabi.namesrv.config import NamesrvConfig, as_properties, read_config, with_properties
from hanabi.namesrv.settings import CHANGEABLE, Settings

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
        read_config(written(tmp_path, "enableControllerInNamesrv=true\nlistenPort=1\n"))
    assert len(caplog.records) == 1
    assert "enableControllerInNamesrv" in caplog.text


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
