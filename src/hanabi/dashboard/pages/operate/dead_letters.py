"""Dead letters: groups that have some, the letters of one group, resend and export."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Final

from starlette.responses import Response, StreamingResponse

from hanabi.admin.dead_letters import DeadLetters, origin_of
from hanabi.dashboard.cluster.collector import Known
from hanabi.dashboard.jobs.jobs import Job
from hanabi.dashboard.jobs.letters import LetterFilter, csv_lines, json_line, letters, record, resend
from hanabi.dashboard.security.roles import Role
from hanabi.dashboard.web.listing import sliced
from hanabi.dashboard.web.routing import PageRoute
from hanabi.dashboard.web.times import parse_time
from hanabi.dashboard.web.visit import Visit
from hanabi.errors import InvalidParameter
from hanabi.message import StoredMessage
from hanabi.wire.system_names import DEAD_LETTER_PREFIX

SHOWN_MAX: Final = 300
RATE_MAX: Final = 10_000


async def listing(visit: Visit) -> Response:
    """Show the groups that have dead letters, with figures for one page."""
    cluster = visit.parts.cluster
    known = await cluster.topic_names()
    groups = [
        name.removeprefix(DEAD_LETTER_PREFIX) for name in known.value or () if name.startswith(DEAD_LETTER_PREFIX)
    ]
    part = sliced(groups, visit.text("q"), visit.number("page", 1, 1, 1_000_000))
    counts = await asyncio.gather(*(_count(visit, group) for group in part.names))
    rows = list(zip(part.names, counts, strict=True))
    return visit.page("dead_letters.html", rows=rows, slice=part, known=known, q=visit.text("q"))


async def _count(visit: Visit, group: str) -> Known[DeadLetters]:
    cluster = visit.parts.cluster
    return await cluster.collector.ask(("dead-letters", group), lambda: cluster.admin.dead_letters.of(group))


async def group(visit: Visit) -> Response:
    """Show the letters of a group that match, with the time when the brokers delete them."""
    name, cluster = visit.name("group"), visit.parts.cluster
    wanted = _filter(visit)
    found: list[StoredMessage] = []
    async with aclosing(letters(cluster.admin, name, wanted)) as reading:
        async for letter in reading:
            found.append(letter)
            if len(found) > SHOWN_MAX:
                break
    kept_ms = await _kept_ms(visit)
    fields = {key: visit.text(key) for key in ("origin", "from", "until", "text")}
    return visit.page(
        "letters.html",
        name=name,
        count=await _count(visit, name),
        rows=[
            (letter, origin_of(letter), kept_ms and letter.store_timestamp_ms + kept_ms) for letter in found[:SHOWN_MAX]
        ],
        more=len(found) > SHOWN_MAX,
        fields=fields,
        running=[job for job in visit.parts.jobs.all() if (job.kind, job.subject) == ("resend", name)],
    )


async def _kept_ms(visit: Visit) -> int | None:
    """Return how long brokers keep messages at least; None if they do not tell."""
    cluster = visit.parts.cluster
    known = await cluster.collector.ask(("all-configs",), cluster.admin.brokers.config, fresh_s=300.0)
    hours = [table.values.get("fileReservedTime", "") for table in known.value or ()]
    return min((int(each) for each in hours if each.isdigit()), default=0) * 3_600_000 or None


def _filter(visit: Visit) -> LetterFilter:
    now = visit.parts.now_ms()
    return LetterFilter(
        origin=visit.text("origin"),
        from_ms=parse_time(visit.text("from"), now),
        until_ms=parse_time(visit.text("until"), now),
        text=visit.text("text"),
    )


async def start_resend(visit: Visit) -> Response:
    """Resend the chosen letters, or all that were not resent, as a job."""
    name, ids = visit.name("group"), frozenset(visit.form.get("id") or ())
    everything = visit.text("all") == "yes"
    if not ids and not everything:
        raise InvalidParameter("choose letters to resend, or all of them")
    if len(ids) > SHOWN_MAX or any(len(each) > 200 for each in ids):
        raise InvalidParameter(f"choose at most {SHOWN_MAX} letters, or all of them")
    rate, to_origin = visit.number("rate", 10, 1, RATE_MAX), visit.text("to") == "origin"
    admin = visit.parts.cluster.admin

    async def work(job: Job) -> None:
        await resend(admin, name, job, ids=ids, rate=rate, to_origin=to_origin)

    back = f"/dead-letters/{name}"
    job = visit.parts.jobs.start("resend", name, visit.user, back, work, alone=True)
    visit.note("resend dead letters", name, f"{len(ids) or 'all'} letters, {rate} a second, job {job.id}")
    visit.parts.cluster.collector.forget("dead-letters", name)
    return visit.to(f"/jobs/{job.id}")


async def export(visit: Visit) -> Response:
    """Send the letters that match as a file: JSON Lines, or CSV."""
    name, form, wanted = visit.name("group"), visit.text("format", "jsonl"), _filter(visit)
    if form not in ("jsonl", "csv"):
        raise InvalidParameter("format must be jsonl or csv")
    admin = visit.parts.cluster.admin
    await admin.access.route(DEAD_LETTER_PREFIX + name)

    async def lines() -> AsyncIterator[bytes]:
        if form == "csv":
            yield csv_lines(None)
        async for letter in letters(admin, name, wanted):
            yield csv_lines([record(letter)]) if form == "csv" else json_line(letter)

    visit.note("export dead letters", name, form)
    kind = "text/csv; charset=utf-8" if form == "csv" else "application/x-ndjson"
    headers = {"content-disposition": f'attachment; filename="dead-letters.{form}"'}
    return StreamingResponse(lines(), media_type=kind, headers=headers)


PAGES = [
    PageRoute("/dead-letters", listing),
    PageRoute("/dead-letters/{group}", group),
    PageRoute("/dead-letters/{group}/export", export, Role.OPERATOR),
    PageRoute("/dead-letters/{group}/resend", start_resend, Role.OPERATOR, "POST"),
]
