"""Settings over the wire: shown, changed where that is safe."""

import json
from pathlib import Path

from hanabi.broker.handlers.admin.config import config_handlers
from hanabi.remoting.connection.dispatch import Handler
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.headers.admin import GetBrokerConfigReplyHeader
from hanabi.wire.java_properties import decode_properties
from tests.broker.handlers.admin.world import Admin, World, asking


def handlers(world: World) -> dict[int, Handler]:
    return config_handlers(world.settings, world.clock)


async def counter(admin: Admin) -> int:
    reply = await admin.ask(RequestCode.GET_BROKER_CONFIG)
    version: int = json.loads(reply.header(GetBrokerConfigReplyHeader).version)["counter"]
    return version


async def test_all_settings_are_shown_as_properties(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (_, admin):
        shown = decode_properties(bytes((await admin.ask(RequestCode.GET_BROKER_CONFIG)).body))
        assert shown["brokerName"] == "broker-a"
        assert shown["fileReservedTime"] == "72"
        assert shown["flushDiskType"] == "ASYNC_FLUSH"


async def test_a_safe_change_is_in_force_at_once_and_counted(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        assert await counter(admin) == 0
        await admin.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=4\nfileReservedTime=24\n")
        assert world.settings.broker.permission == 4
        assert world.settings.store.file_reserved_hours == 24
        assert await counter(admin) == 1


async def test_an_unsafe_or_senseless_change_changes_nothing(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        before = world.settings.text()
        for body in (b"rocketmqHome=/tmp;id", b"storePathRootDir=/etc", b"configBlackList=", b"nothing=1"):
            code, remark = await admin.refused(RequestCode.UPDATE_BROKER_CONFIG, body=b"traceOn=false\n" + body)
            assert code == ResponseCode.NO_PERMISSION
            assert remark.startswith("Can not update config")
        await admin.refused(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=many")
        assert world.settings.text() == before
        assert await counter(admin) == 0


async def test_no_change_is_answered_with_yes(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (_, admin):
        await admin.ask(RequestCode.UPDATE_BROKER_CONFIG)
