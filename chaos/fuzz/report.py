"""The report of a live fuzz: JSON for programs, Markdown for people."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from chaos.fuzz.run import FuzzReport
from chaos.fuzz.vitals import FIELDS
from chaos.report import machine


def write_report(report: FuzzReport, folder: Path) -> Path:
    """Both files; the Markdown one's path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1))
    path = folder / "report.md"
    path.write_text(markdown(report))
    return path


def markdown(report: FuzzReport) -> str:
    verdict = "nothing was found" if not report.violations else f"{len(report.violations)} THINGS WERE FOUND"
    lines = [
        f"# Live fuzz, seed {report.seed}: {verdict}",
        "",
        f"{datetime.now(UTC).strftime('%Y-%m-%d %H:%M UTC')}, {report.seconds / 60:g} minutes; {machine()}.",
        f"{sum(report.frames.values())} frames on {report.connections} connections:"
        f" {', '.join(f'{count} {style}' for style, count in report.frames.items())}.",
        f"{sum(report.answers.values())} answers, by code: {report.answers}.",
        f"The normal client sent {report.witness_sent} messages; seconds for a send and until delivery:"
        f" {report.witness_send_s}, {report.witness_delivery_s}.",
        f"The longest that the servers' loop worked without a break, by processor time: {report.busy_s:.3f} s.",
        "",
        "At rest between two attacks:",
        "",
        "| " + " | ".join(("second", *FIELDS)) + " |",
        "|" + "---|" * (len(FIELDS) + 1),
    ]
    first = report.quiet[0].at if report.quiet else 0.0
    lines += [
        f"| {each.at - first:.0f} | " + " | ".join(str(getattr(each, name)) for name in FIELDS) + " |"
        for each in report.quiet
    ]
    if report.violations:
        lines += ["", "## Found", ""]
        lines += [f"```text\n{text}\n```" for text in report.violations[:30]]
    return "\n".join(lines) + "\n"
