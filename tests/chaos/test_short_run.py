"""Chaos in its short form: every kind of traffic, some faults, and everything holds. `make chaos` is the long form."""

import asyncio
import json
from pathlib import Path

from chaos.plan import Fault, FaultKind
from chaos.report import write_report
from chaos.run import Settings, run
from chaos.traffic import Kind

PLAN = {
    "servers": (
        Fault(at_s=0.5, kind=FaultKind.BROKER_KILL, target="broker-a", seconds=0.2),
        Fault(at_s=3.0, kind=FaultKind.RECOVERY_KILL, target="broker-b", seconds=0.3, amount=1),
        Fault(at_s=6.0, kind=FaultKind.DISK_FULL, target="broker-b", seconds=1.0),
        Fault(at_s=8.0, kind=FaultKind.CLOCK_JUMP, target="broker-a", seconds=1.0, amount=-300.0),
        Fault(at_s=9.5, kind=FaultKind.NO_THREADS, target="broker-a", seconds=1.0),
        Fault(at_s=11.0, kind=FaultKind.NO_FILES, target="broker-b", seconds=1.0),
        Fault(at_s=12.5, kind=FaultKind.FLUSH_FAILED, target="broker-a", seconds=0.2),
    ),
    "network": (
        Fault(at_s=1.5, kind=FaultKind.CUT, target="broker-b", seconds=0.5),
        Fault(at_s=4.0, kind=FaultKind.STALL, target="broker-a", seconds=1.0),
    ),
    "clients": (
        # In order: the locks of one that is killed are kept for 35 s, which is too long for a short form.
        Fault(at_s=2.0, kind=FaultKind.CONSUMER_LEAVE, target="0", seconds=0.2),
        Fault(at_s=5.0, kind=FaultKind.PRODUCER_KILL, target="1", seconds=0.1),
    ),
}


def test_nothing_is_lost_reordered_or_taken_back_while_servers_and_producers_are_killed(tmp_path: Path) -> None:
    told: list[str] = []
    settings = Settings(seed=0, seconds=14.0, plan=PLAN, linger_s=3.0)
    report = asyncio.run(run(settings, tmp_path / "world", told.append))
    path = write_report(report, tmp_path / "report")
    text = path.read_text()
    assert report.holds, f"{text}\n" + "\n".join(told)
    assert "everything held" in text
    assert json.loads(path.with_suffix(".json").read_bytes())["seed"] == 0
    for kind in Kind:  # there was something to judge
        figures = report.verdict.traffic[str(kind)]
        assert figures.acknowledged > 5, kind
        assert figures.delivered > 5, kind
    played = {each.fault.kind for each in report.faults}
    assert {FaultKind.BROKER_KILL, FaultKind.CUT, FaultKind.CONSUMER_LEAVE} <= played
