"""Pages of controllers, replication and pipelines, with real servers and real reports."""

import json
from pathlib import Path

import pytest

from hanabi.cli.pipeline.progress import Lines
from hanabi.cli.pipeline.report import reported
from hanabi.dashboard.pages.brokers import controller_addresses
from hanabi.dashboard.pages.pipelines import BYTES_MAX, SILENT_MS, Run, runs_in
from hanabi.dashboard.security.roles import Role
from hanabi.spark.pipelines.contract import Outcome, Table
from tests.broker.replica.replicas import running_replicas
from tests.dashboard.browsing import dashboard
from tests.dashboard.test_reading import text_of

SCRIPT = "<script>alert(1)</script>"


async def test_controllers_and_replication_show_the_leader_the_replicas_and_which_are_in_sync(tmp_path: Path) -> None:
    async with running_replicas(tmp_path, 2) as replicas:
        await replicas.in_sync(1, 2)
        async with dashboard(tmp_path, replicas.namesrv) as site:
            browser = await site.as_role(Role.READER)
            page = await text_of(browser, "/controllers")
            assert replicas.controller in page
            for broker in replicas.brokers.values():
                assert broker.address in page
            assert page.count("✓ yes") == 4  # two alive, two in sync
            replication = await text_of(browser, "/replication")
            assert "in sync" in replication
            assert "No slave." not in replication


def test_controllers_come_from_brokers_in_controller_mode_only() -> None:
    assert controller_addresses([{"controllerAddr": "a:1"}, {}]) == []
    named = {"enableControllerMode": "true", "controllerAddr": "a:1;b:1; "}
    assert controller_addresses([named, named]) == ["a:1", "b:1"]


def test_a_run_writes_its_report_as_it_goes_and_at_its_end(tmp_path: Path) -> None:
    with reported(tmp_path / "runs", "archive", Lines()) as (progress, report):
        assert report is not None
        progress.step("reading")
        progress.advance(5, 10)
        ((_, run),) = runs_in(tmp_path / "runs")[0].items()
        assert (run.pipeline, run.state, run.step) == ("archive", "running", "reading")
        report.ended(Outcome(facts={"messages_archived": 7}, tables=[Table("Files", ["path"], [["x"]])]))
    ((_, run),) = runs_in(tmp_path / "runs")[0].items()
    assert (run.state, run.facts, run.tables[0].rows) == ("done", {"messages_archived": 7}, [["x"]])
    with pytest.raises(RuntimeError), reported(tmp_path / "runs", "audit", Lines()):
        raise RuntimeError("no disk")
    states = {run.pipeline: (run.state, run.complaint) for run in runs_in(tmp_path / "runs")[0].values()}
    assert states["audit"] == ("failed", "no disk")
    assert [path.suffix for path in (tmp_path / "runs").iterdir()] == [".json", ".json"]


def test_a_run_without_news_is_silent() -> None:
    run = Run(pipeline="archive", began=0, seen=1_000, state="running")
    assert (run.state_at(1_000), run.state_at(1_001 + SILENT_MS)) == ("running", "silent")


async def test_runs_of_pipelines_are_listed_and_bad_files_are_counted(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    run = {"pipeline": SCRIPT, "began": 1_700_000_000_000, "seen": 1_700_000_001_000, "state": "complaint",
           "complaint": SCRIPT, "facts": {"a_b": SCRIPT},
           "tables": [{"title": "T", "columns": ["c"], "rows": [[SCRIPT], [None]]}]}  # fmt: skip
    (folder / "good.json").write_text(json.dumps(run))
    (folder / "bad.json").write_text("{")
    (folder / "large.json").write_text(" " * (BYTES_MAX + 1))
    (tmp_path / "secret.json").write_text(json.dumps({**run, "complaint": "secret"}))
    async with dashboard(tmp_path, "127.0.0.1:1", pipelines=folder) as site:
        browser = await site.as_role(Role.READER)
        page = await text_of(browser, "/pipelines")
        assert "2 files are no reports." in page
        one = await text_of(browser, "/pipelines/good")
        assert "a b" in one
        for text in (page, one):
            assert "<script>alert" not in text
        for name in ("..%2Fsecret", "bad", "missing", "%2Fetc%2Fpasswd"):
            assert (await browser.get(f"/pipelines/{name}")).status_code == 404, name
    async with dashboard(tmp_path / "other", "127.0.0.1:1") as site:
        assert "--pipelines DIR" in await text_of(await site.as_role(Role.READER), "/pipelines")
