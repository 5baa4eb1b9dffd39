"""A name server holds its home while it runs, and leaves nothing behind when it stops or cannot start."""

import socket
from pathlib import Path

import pytest

from hanabi.errors import ConfigError, MQError
from hanabi.namesrv.config import NamesrvConfig
from hanabi.namesrv.name_server import NameServer


async def once(home: Path, config: NamesrvConfig = NamesrvConfig()) -> None:  # noqa: B008 - frozen
    async with NameServer(config, home) as server:
        await server.start("127.0.0.1", 0)


async def test_two_servers_never_share_a_home(tmp_path: Path) -> None:
    async with NameServer(NamesrvConfig(), tmp_path) as first:
        await first.start("127.0.0.1", 0)
        with pytest.raises(ConfigError, match=r"in use by another server \(process \d+\)"):
            await once(tmp_path)
    await once(tmp_path)


async def test_two_servers_with_homes_of_their_own_run_side_by_side(tmp_path: Path) -> None:
    async with NameServer(NamesrvConfig(), tmp_path / "1") as first:
        await first.start("127.0.0.1", 0)
        await once(tmp_path / "2")


async def test_a_server_that_cannot_start_lets_go_of_its_home(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = NameServer(NamesrvConfig(), tmp_path)
        with pytest.raises(OSError, match="in use"):
            await server.start("127.0.0.1", taken.getsockname()[1])
    await once(tmp_path)


async def test_a_home_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(ConfigError, match="cannot be written"):
        await once(tmp_path / "file")


async def test_values_that_cannot_be_read_stop_the_start(tmp_path: Path) -> None:
    (tmp_path / "namesrv").mkdir()
    (tmp_path / "namesrv" / "kvConfig.json").write_text("{")
    with pytest.raises(MQError, match=r"kvConfig\.json"):
        await once(tmp_path)


async def test_values_are_kept_where_the_file_says_but_changed_settings_always_at_home(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "kv.json").write_text('{"configTable":{}}')
    config = NamesrvConfig(kv_config_path=str(tmp_path / "kv.json"), config_store_path=str(tmp_path / "namesrv.conf"))
    with caplog.at_level("INFO"):
        await once(tmp_path / "home", config)
    assert "not in configStorePath" in caplog.text
    assert [path.name for path in (tmp_path / "home" / "namesrv").iterdir()] == ["lock"]


@pytest.mark.parametrize("path", ["file/kvConfig.json", "kv\0Config.json"])
async def test_a_place_for_values_that_cannot_be_written_stops_the_start(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MQError, match=r"writing .*Config\.json'?\)? failed"):
        await once(tmp_path / "home", NamesrvConfig(kv_config_path=f"{tmp_path}/{path}"))
    await once(tmp_path / "home")  # and its home is free
