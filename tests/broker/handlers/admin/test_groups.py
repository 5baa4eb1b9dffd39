"""Groups by administration: made, changed, deleted, shown."""

from pathlib import Path

import pytest

from hanabi.broker.handlers.admin.groups import group_handlers
from hanabi.remoting.connection.dispatch import Handler
from hanabi.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupList, SubscriptionGroupTable
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import encode_body
from hanabi.wire.headers.group import DeleteSubscriptionGroupHeader, GetSubscriptionGroupConfigHeader
from tests.broker.handlers.admin.world import World, asking


def handlers(world: World) -> dict[int, Handler]:
    return group_handlers(world.groups, world.settings, world.offsets, world.stats, world.consumers, world.locks)


async def test_a_group_is_made_changed_and_shown(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        group = SubscriptionGroupConfig(group_name="g", retry_max_times=3, consume_enable=False)
        await admin.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode_body(group))
        assert world.groups.known("g") == group
        table = await admin.read(SubscriptionGroupTable, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        assert table == world.groups.table()
        shown = await admin.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, GetSubscriptionGroupConfigHeader(group="g"))
        assert shown.body == (  # as Apache's 5.3.3 says it
            b'{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":false,'
            b'"consumeFromMinEnable":true,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,"groupName":"g",'
            b'"groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,"notifyConsumerIdsChangedEnable":true,'
            b'"retryMaxTimes":3,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}'
        )


async def test_asking_for_a_group_does_not_make_it(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        code, _ = await admin.refused(
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, GetSubscriptionGroupConfigHeader(group="g")
        )
        assert code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert world.groups.known("g") is None


@pytest.mark.parametrize("name", ["", "a b", "x" * 256, "../g"])
async def test_a_name_that_no_client_could_use_is_refused(tmp_path: Path, name: str) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        before = len(world.groups)
        body = encode_body(SubscriptionGroupConfig(group_name=name))
        code, _ = await admin.refused(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        assert code == ResponseCode.INVALID_PARAMETER
        assert len(world.groups) == before


async def test_a_body_that_is_no_group_is_refused(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (_, admin):
        for body in (b"", b"{", b"[]", b'{"retryMaxTimes":"many"}'):
            await admin.refused(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)


async def test_many_groups_are_made_at_once_or_none_is(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        good = SubscriptionGroupConfig(group_name="g")
        bad = SubscriptionGroupConfig(group_name="not good")
        body = encode_body(SubscriptionGroupList(group_config_list=[good, bad]))
        await admin.refused(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=body)
        assert world.groups.known("g") is None
        body = encode_body(SubscriptionGroupList(group_config_list=[good]))
        await admin.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=body)
        assert world.groups.known("g") == good


@pytest.mark.parametrize(
    ("header", "offset"),
    [
        (DeleteSubscriptionGroupHeader(group_name="g"), 7),
        (DeleteSubscriptionGroupHeader(group_name="g", remove_offset=True), -1),
        (DeleteSubscriptionGroupHeader(group_name="g", clean_offset=True), -1),
    ],
)
async def test_a_deleted_group_loses_its_figures_and_if_asked_to_its_offsets(
    tmp_path: Path, header: DeleteSubscriptionGroupHeader, offset: int
) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        for group in ("g", "h"):
            world.groups.update(SubscriptionGroupConfig(group_name=group))
            world.offsets.commit(group, "T", 0, 7)
            world.stats.get(group, "T", 1, 1)
        await admin.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, header)
        assert world.groups.known("g") is None
        assert world.offsets.find("g", "T", 0) == offset
        assert world.stats.view("GROUP_GET_NUMS", "T@g") is None
        assert world.groups.known("h") is not None
        assert world.offsets.find("h", "T", 0) == 7


async def test_a_slave_changes_no_groups(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers, broker_role="SLAVE") as (_, admin):
        body = encode_body(SubscriptionGroupConfig(group_name="g"))
        await admin.refused(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        await admin.refused(
            RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteSubscriptionGroupHeader(group_name="TOOLS_CONSUMER")
        )


@pytest.mark.parametrize("is_online", [False, True])
async def test_the_locks_of_a_deleted_group_go_unless_members_still_rely_on_them(
    tmp_path: Path, is_online: bool
) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        world.groups.find("g")
        if is_online:
            world.consumer("g", "T")
        world.locks.lock("g", "c1", [world.queue()])
        await admin.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteSubscriptionGroupHeader(group_name="g"))
        assert bool(world.locks.of_group("g")) == is_online
