"""Messages in the dashboard: search, one message, send, live, dead letters, jobs."""

import asyncio
import csv
import io
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from hanabi import Message
from hanabi.admin import Admin
from hanabi.aio import Producer, PullConsumer
from hanabi.dashboard.bodies.forms import SHOWN_BYTES_MAX, decoded
from hanabi.dashboard.cluster.tail import filter_of, json_fields, tail
from hanabi.dashboard.jobs.jobs import KEPT_MAX, RUNNING_MAX, Job, Jobs
from hanabi.dashboard.jobs.letters import csv_lines
from hanabi.dashboard.pages.messages import properties_of
from hanabi.dashboard.security.roles import Role
from hanabi.dashboard.web.times import parse_time
from hanabi.errors import InvalidParameter
from hanabi.testing.cluster import Cluster, running_cluster
from hanabi.testing.waiting import eventually
from tests.dashboard.browsing import Browser, Dashboard, dashboard

SCRIPT = "<script>alert(1)</script>"
FOREIGN_ID = "CB00710100002A9F0000000000000000"  # 203.0.113.1:10911


@asynccontextmanager
async def operating(tmp_path: Path) -> AsyncIterator[tuple[Cluster, Dashboard, Browser]]:
    async with running_cluster(tmp_path) as cluster, dashboard(tmp_path, cluster.namesrv) as site:
        await cluster.create_topic("Orders", queues=2)
        yield cluster, site, await site.as_role(Role.OPERATOR)


async def follow(browser: Browser, path: str, fields: Mapping[str, object]) -> str:
    response = await browser.post(path, dict(fields))
    assert response.status_code == 303, response.text
    page = await browser.get(response.headers["location"])
    assert page.status_code == 200, page.text
    return page.text


async def test_a_sent_message_is_shown_found_and_sent_again(tmp_path: Path) -> None:
    async with operating(tmp_path) as (_, site, browser):
        form = {"tags": "new", "keys": "k1 k2", "properties": "colour=red\n", "body": '{"amount": 120}'}
        page = await follow(browser, "/topics/Orders/send", form)
        assert "SEND_OK: broker-a, queue" in page
        assert "Shown as <strong>json</strong>" in page
        assert "&#34;amount&#34;: 120" in page
        assert "colour" in page
        for query in ("key=k2", "key=k1&topic=Orders", "topic=Orders&from=1h&text=amount", "topic=Orders&tags=new"):
            assert "/messages/view?id=" in (await browser.get(f"/messages?{query}")).text, query
        for query in ("key=other", "topic=Orders&text=missing", "topic=Orders&until=1h"):
            assert "No message matches." in (await browser.get(f"/messages?{query}")).text, query
        (message_id,) = set(re.findall(r"view\?id=(\w+)", (await browser.get("/messages?key=k1")).text))
        hexed = (await browser.get(f"/messages/view?id={message_id}&as=hex")).text
        assert "7b 22 61 6d" in hexed
        again = await follow(browser, "/messages/again", {"id": message_id, "topic": "Orders"})
        assert "SEND_OK" in again
        assert "colour" in again
        assert {"send", "send again"} <= {event.action for event in site.parts.audit.newest}


async def test_bodies_keys_and_properties_that_are_scripts_stay_text(tmp_path: Path) -> None:
    async with operating(tmp_path) as (cluster, _, browser):
        async with Producer("shop", namesrv=cluster.namesrv, instance=SCRIPT) as producer:
            sent = await producer.send(
                Message("Orders", SCRIPT.encode(), keys=["<b>key</b>"], tags="<i>", properties={"<u>": SCRIPT})
            )
            producers = (await browser.get("/producers?group=shop")).text
            assert "&lt;script&gt;" in producers
            assert SCRIPT not in producers
        for path in (f"/messages/view?id={sent.message_id}&topic=Orders", "/messages?topic=Orders"):
            page = (await browser.get(path)).text
            assert SCRIPT not in page
            assert "<b>key</b>" not in page
            assert "&lt;b&gt;key" in page


async def test_an_id_of_a_foreign_host_makes_no_connection(tmp_path: Path) -> None:
    async with operating(tmp_path) as (_, site, browser):
        page = await browser.get(f"/messages/view?id={FOREIGN_ID}")
        assert page.status_code == 404
        assert "not a broker of this cluster" in page.text
        assert "203.0.113.1" not in str(site.parts.cluster.admin.access.api.broker_names)


BAD_INPUT: list[tuple[str, dict[str, str] | None, int]] = [
    ("/topics/Missing/send", {"body": "x"}, 404),
    ("/topics/Orders/send", {"body": "x", "properties": "no sign"}, 400),
    ("/topics/Orders/send", {"body": "x", "delay": "-1"}, 400),
    ("/topics/Orders/send", {"body": "x", "keys": "k" * 2_000}, 400),
    ("/messages/again", {"id": "nonsense"}, 404),
    ("/messages/search", {"topic": ""}, 400),
    ("/jobs/cancel", {"id": "none"}, 404),
    ("/dead-letters/billing/resend", {}, 400),
    ("/dead-letters/billing/resend", {"all": "yes", "rate": "0"}, 400),
    ("/messages/view?id=", None, 404),
    ("/messages?topic=Orders&from=yesterday", None, 400),
    ("/messages?topic=Missing", None, 404),
    ("/topics/Orders/live?filter=a+b+c", None, 400),
    ("/topics/Orders/stream?filter=a+b+c", None, 400),
    ("/dead-letters/none", None, 404),
    ("/dead-letters/none/export?format=exe", None, 400),
    ("/dead-letters/none/export", None, 404),
    ("/jobs/none", None, 404),
]


async def test_bad_input_about_messages_is_told_in_a_sentence(tmp_path: Path) -> None:
    async with operating(tmp_path) as (_, _, browser):
        for path, fields, code in BAD_INPUT:
            response = await browser.get(path) if fields is None else await browser.post(path, fields)
            assert response.status_code == code, f"{path}: {response.text}"


async def test_a_long_search_is_a_job_with_progress_that_can_be_cancelled(tmp_path: Path) -> None:
    async with operating(tmp_path) as (cluster, site, browser):
        async with Producer("shop", namesrv=cluster.namesrv) as producer:
            for number in range(300):
                await producer.send(Message("Orders", b"needle" if number == 250 else b"hay"))
        page = await follow(browser, "/messages/search", {"topic": "Orders", "text": "needle"})
        job = site.parts.jobs.all()[0]
        await eventually(lambda: not job.is_running)
        assert (job.state, job.done, job.found) == ("done", 300, 1)
        assert f"/jobs/{job.id}" in page
        assert "Done" in (await browser.get(f"/jobs/{job.id}")).text
        assert (await browser.post("/jobs/cancel", {"id": job.id})).status_code == 303


async def make_letters(cluster: Cluster, group: str, counts: Mapping[str, int]) -> None:
    """Let the group fail for good on so many messages of each topic; the second body begins as a formula does."""
    for topic, count in counts.items():
        await cluster.create_topic(topic, queues=1)
        async with (
            Producer("shop", namesrv=cluster.namesrv) as producer,
            PullConsumer(group, namesrv=cluster.namesrv, max_reconsume_times=0) as consumer,
        ):
            for number in range(count):
                await producer.send(Message(topic, b"=cmd()" if number == 1 else b"%d" % number, keys=[f"k{number}"]))
            (queue,) = [queue for queue in await consumer.queues_of(topic) if queue.queue_id == 0]
            for message in (await consumer.pull(queue, 0)).messages:
                await consumer.send_back(message)
    await cluster.broker.registration.settled()


async def test_dead_letters_are_filtered_resent_once_and_exported(tmp_path: Path) -> None:
    async with operating(tmp_path) as (cluster, site, browser):
        await make_letters(cluster, "billing", {"Paid": 10, "Other": 10})
        assert ">billing</a>" in (await browser.get("/dead-letters")).text
        page = (await browser.get("/dead-letters/billing?origin=Paid")).text
        ids = re.findall(r'name="id" value="(\w+)"', page)
        assert len(ids) == 10
        assert "Deleted not before" in page
        exported = await browser.get("/dead-letters/billing/export?format=csv&origin=Paid")
        assert exported.headers["content-disposition"].startswith("attachment")
        rows = list(csv.DictReader(io.StringIO(exported.text)))
        assert len(rows) == 10
        assert "'=cmd()" in {row["body"] for row in rows}
        lines = (await browser.get("/dead-letters/billing/export")).text.splitlines()
        assert json.loads(lines[0])["originTopic"] in ("Paid", "Other")
        assert len(lines) == 20
        await follow(browser, "/dead-letters/billing/resend", {"id": ids[:3], "rate": "1000", "to": "origin"})
        job = site.parts.jobs.all()[0]
        await eventually(lambda: not job.is_running)
        assert (job.state, job.done, job.found, job.total) == ("done", 3, 3, 3)
        async with Admin(namesrv=cluster.namesrv) as admin:
            assert (await admin.topics.status("Paid")).messages == 13
        assert "resend" in (await browser.get("/dead-letters/billing")).text
        reader = await site.as_role(Role.READER)
        assert 'name="rate"' not in (await reader.get("/dead-letters/billing")).text


async def test_the_live_tail_yields_what_matches_and_stops_its_pulls(tmp_path: Path) -> None:
    async with operating(tmp_path) as (cluster, site, _):
        async with Producer("shop", namesrv=cluster.namesrv) as producer:
            admin = site.parts.cluster.admin
            async with aclosing(tail(admin, "Orders", "*", filter_of("amount > 100 AND colour = 'red'"))) as found:
                first = asyncio.ensure_future(anext(found))
                await eventually(lambda: len(cluster.broker.tables.held_pulls) == 2)
                for amount, colour in ((50, "red"), (150, "blue"), (200, "red")):
                    body = json.dumps({"amount": amount}).encode()
                    await producer.send(Message("Orders", body, properties={"colour": colour}))
                message = await first
                while message is None:
                    message = await anext(found)
                assert json.loads(message.body) == {"amount": 200}
        others = asyncio.all_tasks()
        assert not [task for task in others if "follow" in repr(task)]


def test_filters_read_properties_and_fields_of_json_and_nothing_else() -> None:
    assert json_fields(b'{"a": {"b": 1}, "c": true, "d": "x", "e": [1]}') == {
        "a.b": "1", "a_b": "1", "c": "true", "d": "x",
    }  # fmt: skip
    assert json_fields(b"no json") == {}
    assert json_fields(b"{" * 100_000) == {}
    for bad in ("__import__('os')", "a ==", "(" * 10):
        with pytest.raises(InvalidParameter, match="filter"):
            filter_of(bad)


def test_bodies_are_shown_in_the_form_that_fits_and_in_the_wanted_one() -> None:
    assert decoded(b'{"a":1}').form == "json"
    assert decoded("héllo".encode()).form == "text"
    packed = msgspec.msgpack.encode({"a": [1, b"\x00"]})
    assert decoded(packed).form == "msgpack"
    assert decoded(b"\xff\xfe\x00").form == "hex"
    assert decoded(b'{"a":1}', "hex").text.startswith("00000000  7b 22 61")
    unfit = decoded(b"plain", "msgpack")
    assert (unfit.form, unfit.problem) == ("text", "the body is not msgpack")
    assert decoded(b"").form == "text"
    large = decoded(b"x" * (SHOWN_BYTES_MAX + 1))
    assert (large.form, large.cut, len(large.text)) == ("text", True, SHOWN_BYTES_MAX)


def test_times_are_told_as_people_write_them() -> None:
    now = 1_700_000_000_000
    assert parse_time("", now) is None
    assert [now - (parse_time(text, now) or 0) for text in ("30m", "2h", "1d")] == [1_800_000, 7_200_000, 86_400_000]
    assert parse_time("2023-11-14 22:13:20", now) == now
    assert parse_time("1700000000000", now) == now
    for bad in ("yesterday", "30x", "2023-99-01", "9" * 40):
        with pytest.raises(InvalidParameter, match="not a time"):
            parse_time(bad, now)


def test_properties_are_lines_and_cells_of_a_spreadsheet_execute_nothing() -> None:
    assert properties_of("a=1\n\n b = x=y \n") == {"a": "1", "b": "x=y"}
    row: dict[str, object] = dict.fromkeys(
        ("messageId", "originTopic", "bornHost", "broker", "tags", "keys", "body"), ""
    )
    numbers = dict.fromkeys(("storeTime", "queueId", "queueOffset", "reconsumeTimes"), -1)
    for evil in ("=1+1", "+1", "-1", "@x", "\tx"):
        (cells,) = csv.reader(io.StringIO(csv_lines([{**row, **numbers, "body": evil}]).decode()))
        assert cells[-1] == f"'{evil}"


async def test_jobs_are_bounded_and_end_with_their_dashboard() -> None:
    jobs = Jobs(lambda: 0)

    async def forever(_: Job) -> None:
        await asyncio.Event().wait()

    async def fails(_: Job) -> None:
        raise InvalidParameter("no")

    first = jobs.start("resend", "g", "ann", "/", forever, alone=True)
    with pytest.raises(InvalidParameter, match="already"):
        jobs.start("resend", "g", "ann", "/", forever, alone=True)
    for number in range(RUNNING_MAX - 1):
        jobs.start("resend", str(number), "ann", "/", forever, alone=True)
    with pytest.raises(InvalidParameter, match="running already"):
        jobs.start("search", "T", "ann", "/", forever, alone=False)
    await asyncio.sleep(0)
    await jobs.cancel(first.id)
    assert first.state == "cancelled"
    for _ in range(KEPT_MAX + 5):
        job = jobs.start("search", "T", "ann", "/", fails, alone=False)
        await eventually(lambda job=job: not job.is_running)  # type: ignore[misc]
    assert (job.state, job.problem) == ("failed", "no")
    assert len(jobs.all()) == KEPT_MAX
    await jobs.close()
    assert not any(job.is_running for job in jobs.all())
