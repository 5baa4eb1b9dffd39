"""`hanabi doctor`: what is wrong with a cluster, and what to do about it."""

import sys
import textwrap
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from hanabi.cli.shared.administration import Site, counted
from hanabi.cli.shared.cluster import FAILED, request_seconds
from hanabi.cli.shared.output import printable

if TYPE_CHECKING:
    from hanabi.admin import Admin
    from hanabi.doctor import Diagnosis, Finding

CANNOT_ASK = 2
PATIENCE_SECONDS = 10.0  # what is slow is not what is away
Interval = Annotated[
    float, typer.Option("--interval", metavar="SECONDS", min=0.0, help="Look twice, so far apart, for what grows.")
]


def doctor(site: Site, interval: Interval = 3.0) -> None:
    """Find out what is wrong with a cluster as clients on this machine see it, and what to do about it.

    Asks every name server and every broker; changes nothing. Exit code 0: nothing but notes. 1: there are errors or
    warnings. 2: no name server can be asked.
    """
    site.config = msgspec.structs.replace(site.config, request_timeout_s=request_seconds(PATIENCE_SECONDS))
    try:
        found = site.run(lambda admin: _examine(admin, interval))
    except typer.Exit as ended:
        raise typer.Exit(CANNOT_ASK if ended.exit_code == FAILED else ended.exit_code) from ended
    site.write(found, _text)
    if not found.healthy:
        raise typer.Exit(FAILED)


async def _examine(admin: "Admin", interval: float) -> "Diagnosis":
    from hanabi.doctor import examine

    return await examine(admin, seconds=interval)


def _text(found: "Diagnosis") -> str:
    width = _width()
    looked = ", ".join(
        (
            counted(found.name_servers, "name server"),
            counted(found.brokers, "broker"),
            counted(found.topics, "topic"),
            counted(found.groups, "group"),
        )
    )
    counts = [
        counted(sum(finding.severity == word for finding in found.findings), word)
        for word in ("error", "warning", "note")
    ]
    result = ", ".join(counts) if found.findings else "nothing is wrong"
    summary = textwrap.fill(f"Looked at {looked}: {result}.", width)
    return "".join(_finding_text(finding, width) for finding in found.findings) + f"{summary}\n"


def _finding_text(finding: "Finding", width: int) -> str:
    lines = [
        (f"{finding.severity.upper():<8}", finding.what),
        (f"{'':<8}", f"Why: {finding.why}."),
        (f"{'':<8}", f"Do:  {finding.todo}."),
    ]
    return (
        "".join(
            textwrap.fill(
                printable(text),
                width,
                initial_indent=head,
                subsequent_indent=" " * 8,
                break_long_words=False,
                break_on_hyphens=False,  # broker-a is a name
            )
            + "\n"
            for head, text in lines
        )
        + "\n"
    )


def _width() -> int:
    if not sys.stdout.isatty():
        return 10_000  # `grep` wants a sentence in one line
    import shutil

    return max(shutil.get_terminal_size().columns, 40)
