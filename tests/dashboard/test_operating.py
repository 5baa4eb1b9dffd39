"""Changes made in the dashboard: preview, confirmation, result, audit; and what waits in a cluster."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hanabi import Message
from hanabi.admin import Admin, GroupChange, Target
from hanabi.admin.topics import QueueStatus
from hanabi.aio import Producer
from hanabi.dashboard.pages.waiting import delay_levels
from hanabi.dashboard.security.roles import Role
from hanabi.testing.cluster import Cluster, running_cluster
from tests.dashboard.browsing import Browser, Dashboard, dashboard


@asynccontextmanager
async def operating(tmp_path: Path) -> AsyncIterator[tuple[Cluster, Dashboard, Browser, Admin]]:
    async with (
        running_cluster(tmp_path) as cluster,
        dashboard(tmp_path, cluster.namesrv) as site,
        Admin(namesrv=cluster.namesrv) as admin,
    ):
        yield cluster, site, await site.as_role(Role.ADMINISTRATOR), admin


async def test_a_topic_is_created_changed_and_deleted_with_its_name_typed(tmp_path: Path) -> None:
    async with operating(tmp_path) as (_, site, browser, admin):
        created = await browser.post("/new/topic", {"name": "Orders", "read": "2", "write": "2"})
        assert created.status_code == 303, created.text
        page = (await browser.get(created.headers["location"])).text
        assert "topic Orders created" in page
        assert (await browser.post("/new/topic", {"name": "Orders"})).status_code == 400  # exists
        changed = await browser.post("/topics/Orders/change", {"read": "4", "write": "4", "perm": "read only"})
        assert changed.status_code == 303, changed.text
        assert (await admin.topics.settings("Orders"))[0].perm == 4
        assert (await browser.post("/topics/Orders/delete", {"confirm": "orders"})).status_code == 400
        assert "Orders" in await admin.topics.names()
        assert (await browser.post("/topics/Orders/delete", {"confirm": "Orders"})).status_code == 303
        assert "Orders" not in await admin.topics.names()
        details = {event.action: event.detail for event in site.parts.audit.newest}
        assert "perm 6 → broker-a: 4/4 perm 4" in details["change topic"]
        assert {"create topic", "delete topic"} <= set(details)


async def test_a_reset_is_previewed_confirmed_and_told_by_queue(tmp_path: Path) -> None:
    async with operating(tmp_path) as (cluster, site, browser, admin):
        await cluster.create_topic("Orders", queues=1)
        async with Producer("shop", namesrv=cluster.namesrv) as producer:
            for _ in range(5):
                await producer.send(Message("Orders", b"x"))
        await admin.groups.create("billing", GroupChange())
        await admin.offsets.reset("billing", "Orders", Target(last=True))
        preview = (await browser.get("/groups/billing/reset?topic=Orders&to=first")).text
        assert "Nothing has changed yet." in preview
        assert "Messages consumed again: 5" in preview
        assert ">-5<" in preview
        form = {"topic": "Orders", "to": "first", "confirm": "wrong"}
        assert (await browser.post("/groups/billing/reset", form)).status_code == 400
        (queue,) = (await admin.groups.progress("billing")).queues
        assert queue.group_offset == 5
        result = await browser.post("/groups/billing/reset", {**form, "confirm": "billing"})
        assert "The offsets were reset." in result.text
        (queue,) = (await admin.groups.progress("billing")).queues
        assert queue.group_offset == 0
        assert "broker-a 0: 5→0" in site.parts.audit.newest[-1].detail
        await admin.groups.create("copy", GroupChange())
        await admin.offsets.reset("copy", "Orders", Target(last=True))
        clone = {"topic": "Orders", "to": "group", "source": "billing"}
        assert ">-5<" in (await browser.get("/groups/copy/reset", params=clone)).text
        assert (await browser.get("/groups/copy/reset?topic=Orders&to=group")).status_code == 400
        assert "reset." in (await browser.post("/groups/copy/reset", {**clone, "confirm": "copy"})).text
        assert [queue.group_offset for queue in (await admin.groups.progress("copy")).queues] == [0]
        assert (await browser.post("/groups/billing/delete", {"confirm": "billing"})).status_code == 303
        assert "billing" not in await admin.groups.names()


async def test_a_setting_is_previewed_and_changed_and_unsafe_ones_are_refused(tmp_path: Path) -> None:
    async with operating(tmp_path) as (cluster, site, browser, _):
        path = f"/brokers/{cluster.address}/setting"
        preview = (await browser.get(f"{path}?key=flushIntervalCommitLog&value=700")).text
        assert "<td>500</td><td>700</td>" in preview
        changed = await browser.post(path, {"key": "flushIntervalCommitLog", "value": "700"})
        assert changed.status_code == 303, changed.text
        assert site.parts.audit.newest[-1].detail == "flushIntervalCommitLog: 500 → 700"
        for key in ("rocketmqHome", "storePathRootDir", "brokerConfigPath", "nothing", "aclEnable", ""):
            assert (await browser.post(path, {"key": key, "value": "/tmp/x"})).status_code == 400, key  # noqa: S108
        assert (await browser.post("/brokers/203.0.113.1:1/setting", {"key": "a", "value": "b"})).status_code == 400


async def test_bad_input_of_changes_is_told_in_a_sentence(tmp_path: Path) -> None:
    async with operating(tmp_path) as (_, _, browser, _):
        for path, fields, code in (
            ("/new/topic", {"name": "../../x"}, 400),
            ("/new/topic", {"name": "x" * 128}, 400),
            ("/new/topic", {"name": "T", "read": "0"}, 400),
            ("/new/topic", {"name": "T", "perm": "all"}, 400),
            ("/new/topic", {"name": "T", "cluster": "none"}, 400),
            ("/new/group", {"name": "<b>"}, 400),
            ("/topics/Missing/change", {"read": "1"}, 404),
            ("/topics/SCHEDULE_TOPIC_XXXX/delete", {"confirm": "SCHEDULE_TOPIC_XXXX"}, 400),
            ("/groups/missing/delete", {"confirm": "missing"}, 404),
            ("/groups/missing/reset", {"confirm": "missing", "topic": "T", "to": "first"}, 404),
            ("/groups/missing/reset", {"confirm": "missing", "topic": "T", "to": "moon"}, 400),
        ):
            response = await browser.post(path, dict(fields))
            assert response.status_code == code, f"{path} {fields}: {response.text}"


async def test_readers_see_no_buttons_that_change_something(tmp_path: Path) -> None:
    async with operating(tmp_path) as (cluster, site, _, admin):
        await cluster.create_topic("Orders", queues=1)
        await admin.groups.create("billing", GroupChange())
        reader = await site.as_role(Role.READER)
        for path in ("/topics", "/topics/Orders", "/groups", "/groups/billing", f"/brokers/{cluster.address}"):
            page = (await reader.get(path)).text
            actions = {line.split('"')[0] for line in page.split('method="post" action="')[1:]}
            assert actions == {"/logout", "/preferences"}, path
            assert "/new/topic" not in page


async def test_waiting_messages_are_shown_by_level(tmp_path: Path) -> None:
    async with operating(tmp_path) as (cluster, _, browser, _):
        await cluster.create_topic("Orders", queues=1)
        async with Producer("shop", namesrv=cluster.namesrv) as producer:
            await producer.send(Message("Orders", b"x", delay_level=18))
        page = (await browser.get("/waiting")).text
        assert '<td class="n">18</td><td>2h</td><td class="n">1</td>' in page


def test_delay_levels_are_queues_with_the_figures_of_their_broker() -> None:
    queues = [
        QueueStatus(broker="b", queue_id=number, min_offset=0, max_offset=end, messages=end, last_stored=0)
        for number, end in enumerate((0, 5, 7))
    ]
    levels = delay_levels(queues, {"scheduleMessageOffset_2": "3,5", "scheduleMessageOffset_3": "x"}, "1s 5s")
    assert [(each.level, each.delay, each.waiting) for each in levels] == [(2, "5s", 2), (3, "", 7)]
