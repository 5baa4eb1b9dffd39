"""A home keeps the name of its broker, and a start under another one is warned of."""

import logging
from pathlib import Path

import pytest

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.broker.tables.home_name import remembered_name
from hanabi.errors import StoreLocked
from hanabi.store.config import StoreConfig


def broker(home: Path, name: str) -> Broker:
    store = StoreConfig(root=str(home), commit_log_segment_bytes=1 << 20, index_slots=100, index_entries=400)
    return Broker(BrokerConfig(broker_name=name), store)


async def serve(home: Path, name: str) -> None:
    async with broker(home, name) as served:
        await served.start("127.0.0.1", 0)


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


async def test_a_home_is_warned_of_once_when_its_broker_has_another_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert remembered_name(tmp_path) is None
    for name in ("broker-a", "broker-a"):
        await serve(tmp_path, name)
        assert remembered_name(tmp_path) == "broker-a"
    assert not [line for line in warnings_of(caplog) if "broker-a" in line]
    for name in ("other", "other"):
        await serve(tmp_path, name)
        assert remembered_name(tmp_path) == "other"
    (warning,) = [line for line in warnings_of(caplog) if "broker-a" in line]
    assert f"home {tmp_path} was served as broker broker-a before and is served as other now" in warning
    assert "brokerName=broker-a" in warning


async def test_one_that_may_not_serve_a_home_does_not_rename_it(tmp_path: Path) -> None:
    async with broker(tmp_path, "first") as served, broker(tmp_path, "second") as second:
        await served.start("127.0.0.1", 0)
        with pytest.raises(StoreLocked):
            await second.start("127.0.0.1", 0)

    assert remembered_name(tmp_path) == "first"


async def test_a_name_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    await serve(tmp_path, "first")
    for path in (tmp_path / "config").glob("brokerName*"):
        path.write_bytes(b"\xff")
    assert remembered_name(tmp_path) is None
    await serve(tmp_path, "second")
    assert remembered_name(tmp_path) == "second"
