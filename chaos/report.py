"""The report of a run: one JSON file for programs, one Markdown file for people. Pure but for writing the two."""

import platform
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from chaos.checks.recovery import Recovery
from chaos.faults import Played
from chaos.plan import Fault
from chaos.verdict import MUST_HOLD, Verdict

SENTENCES_MAX: Final = 20  # of one kind in the Markdown; the JSON has all


class PlayedFault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault, when it really happened (seconds from the start of the traffic), and how things went on."""

    lane: str
    fault: Fault
    began_s: float
    ended_s: float
    ready_s: float | None
    send_again_s: float | None
    delivery_again_s: float | None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one run."""

    seed: int
    date: str
    minutes: float
    flush: str
    machine: str
    holds: bool
    seconds: float  # really, with starting and draining
    drain_s: float
    longest_silence_s: float  # without any acknowledged send, in all of the traffic
    skipped: dict[str, str]
    verdict: Verdict
    faults: list[PlayedFault]


def machine() -> str:
    return f"{platform.system()} {platform.release()}, Python {platform.python_version()}"


def played_fault(lane: str, played: Played, start: float, recovery: Recovery) -> PlayedFault:
    return PlayedFault(
        lane=lane,
        fault=played.fault,
        began_s=round(played.began - start, 3),
        ended_s=round(played.ended - start, 3),
        ready_s=_rounded(played.ready_s),
        send_again_s=_rounded(recovery.send_s),
        delivery_again_s=_rounded(recovery.delivery_s),
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def write_report(report: Report, folder: Path) -> Path:
    """Both files; the Markdown one's path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1))
    path = folder / "report.md"
    path.write_text(markdown(report))
    return path


def markdown(report: Report) -> str:
    verdict = report.verdict
    lines = [
        f"# Chaos run, seed {report.seed}: {'everything held' if report.holds else 'SOMETHING DID NOT HOLD'}",
        "",
        f"{report.date}, {report.minutes:g} minutes of faults, {report.flush}; {report.machine}.",
        f"All in all {report.seconds:.0f} s; after the last fault everything had arrived in {report.drain_s:.1f} s.",
        "",
        "| must be 0 | found |",
        "|---|---|",
        *(f"| {text} | {len(verdict.violations[key])} |" for key, text in MUST_HOLD.items()),
        "",
        "| counted | |",
        "|---|---|",
        f"| delivered again (at least once) | {verdict.delivered_again} |",
        f"| stored twice by a second try | {verdict.stored_again} |",
        f"| two members at one ordered queue at once | {verdict.overlaps} |",
        f"| longest time without any acknowledged send | {report.longest_silence_s:.1f} s |",
        f"| delayed messages came late by (median, p99, most) | {_late(verdict.late_s)} |",
        "",
        "| traffic | tried | acknowledged | refused | no answer | delivered | deliveries |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {kind} | {sum_.attempted} | {sum_.acknowledged} | {sum_.refused} | {sum_.unknown} | {sum_.delivered} |"
            f" {sum_.deliveries} |"
            for kind, sum_ in verdict.traffic.items()
        ),
        "",
        *_fault_table(report.faults),
        *(f"- not played: {kind}: {why}" for kind, why in report.skipped.items()),
    ]
    for key, sentences in verdict.violations.items():
        if sentences:
            lines += ["", f"## {MUST_HOLD[key]}", ""]
            lines += [f"- {sentence}" for sentence in sentences[:SENTENCES_MAX]]
            if len(sentences) > SENTENCES_MAX:
                lines.append(f"- and {len(sentences) - SENTENCES_MAX} more, in report.json")
    lines += [
        "",
        "## All faults",
        "",
        "| from s | to s | lane | fault | target | amount |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {f.began_s:.1f} | {f.ended_s:.1f} | {f.lane} | {f.fault.kind} | {f.fault.target} | {f.fault.amount:g} |"
        for f in sorted(report.faults, key=lambda each: each.began_s)
    ]
    return "\n".join(lines) + "\n"


def _late(late_s: dict[str, float]) -> str:
    return ", ".join(f"{value:.2f} s" for value in late_s.values()) or "none were sent"


def _fault_table(faults: list[PlayedFault]) -> list[str]:
    by_kind: dict[str, list[PlayedFault]] = defaultdict(list)
    for each in faults:
        by_kind[each.fault.kind].append(each)
    return [
        "Seconds from the end of a fault until its servers acknowledged and delivered again; median and longest.",
        "",
        "| fault | times | server ready | sends | deliveries |",
        "|---|---|---|---|---|",
        *(
            f"| {kind} | {len(several)} | {_spread([f.ready_s for f in several])} |"
            f" {_spread([f.send_again_s for f in several])} | {_spread([f.delivery_again_s for f in several])} |"
            for kind, several in sorted(by_kind.items())
        ),
        "",
    ]


def _spread(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{median(known):.2f}, {max(known):.2f}" if known else ""
