"""A table in Markdown, with what a reader must know to believe it: machine, versions, date."""

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benches.c_programs import OUT


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, the columns aligned for a reader of plain text too."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    ruled = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in ruled
    )


def conditions() -> str:
    """Return where and when this was measured."""
    parts = (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        f"{os.cpu_count()} cores, {_cpu_model()}, load {os.getloadavg()[0]:.1f} at the end",
        f"{platform.system()} {platform.release().split('-')[0]}",
        f"Python {platform.python_version()}, uvloop {_version_of('uvloop')}",
        _java(),
    )
    return "; ".join(parts) + "."


def publish(name: str, title: str, *parts: str, quick: bool) -> None:
    """Print the report and keep it in benches/out/."""
    caution = "A quick run: Java has hardly warmed up, and these figures are not to be quoted." if quick else ""
    text = "\n\n".join(part for part in (f"## {title}", caution, *parts, conditions()) if part) + "\n"
    OUT.mkdir(exist_ok=True)
    (OUT / f"{name}.md").write_text(text)
    print(text)


def keep_figures(name: str, figures: Mapping[str, object]) -> None:
    """Keep the figures behind a report for programs, in benches/out/NAME.json."""
    OUT.mkdir(exist_ok=True)
    (OUT / f"{name}.json").write_text(json.dumps({"conditions": conditions(), "figures": figures}, indent=1) + "\n")


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _java() -> str:
    if (java := shutil.which("java")) is None:
        return "no Java"
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    return "Java " + (told.split('"')[1] if told.count('"') >= 2 else "of unknown version")
