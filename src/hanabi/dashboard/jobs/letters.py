"""Dead letters: filter, expiry, resend as a job, and export as lines that spreadsheets do not execute."""

import csv
import io
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from typing import Final

import msgspec

from hanabi.admin import Admin
from hanabi.admin.dead_letters import origin_of
from hanabi.dashboard.jobs.jobs import Job
from hanabi.message import StoredMessage

SCANNED_MAX: Final = 20_000
RESULTS_MAX: Final = 1_000
COLUMNS: Final = (
    "messageId", "originTopic", "storeTime", "bornHost", "broker", "queueId", "queueOffset", "tags", "keys",
    "reconsumeTimes", "body",
)  # fmt: skip
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


class LetterFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Letters to show, export or resend."""

    origin: str = ""
    from_ms: int | None = None
    until_ms: int | None = None
    text: str = ""

    def has(self, letter: StoredMessage) -> bool:
        stored = letter.store_timestamp_ms
        if self.origin and origin_of(letter) != self.origin:
            return False
        if stored < (self.from_ms or 0) or (self.until_ms is not None and stored >= self.until_ms):
            return False
        return not self.text or self.text.encode() in letter.body or self.text in " ".join(letter.keys)


async def letters(
    admin: Admin, group: str, wanted: LetterFilter, *, scanned_max: int = SCANNED_MAX
) -> AsyncGenerator[StoredMessage, None]:
    """Yield the letters of a group that *wanted* has; reads at most *scanned_max*."""
    scanned = 0
    async with aclosing(admin.dead_letters.read(group)) as reading:
        async for letter in reading:
            scanned += 1
            if wanted.has(letter):
                yield letter
            if scanned >= scanned_max:
                return


async def resend(admin: Admin, group: str, job: Job, *, ids: Collection[str], rate: float, to_origin: bool) -> None:
    """Resend letters, these or all that wait, at most *rate* a second."""

    def total(count: int) -> None:
        job.total = len(ids) or count

    work = admin.dead_letters.resend(group, ids=ids, rate=rate, to_origin=to_origin, on_total=total)
    async with aclosing(work) as resending:
        async for letter in resending:
            job.done += 1
            job.found += letter.sent
            if len(job.rows) < RESULTS_MAX:
                job.rows.append(letter)


def record(letter: StoredMessage) -> dict[str, object]:
    """Return a letter as a row of an export. Pure."""
    return {
        "messageId": letter.message_id,
        "originTopic": origin_of(letter) or "",
        "storeTime": letter.store_timestamp_ms,
        "bornHost": str(letter.born_host),
        "broker": letter.broker_name,
        "queueId": letter.queue_id,
        "queueOffset": letter.queue_offset,
        "tags": letter.tags or "",
        "keys": " ".join(letter.keys),
        "reconsumeTimes": letter.reconsume_times,
        "body": letter.body.decode(errors="replace"),
    }


def json_line(letter: StoredMessage) -> bytes:
    """Return a letter as a line of JSON, with its properties."""
    return msgspec.json.encode({**record(letter), "properties": letter.properties}) + b"\n"


def csv_lines(rows: Collection[dict[str, object]] | None) -> bytes:
    """Return rows of CSV, or its first line for None. A cell that a spreadsheet would execute is quoted."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    if rows is None:
        writer.writerow(COLUMNS)
    for row in rows or ():
        writer.writerow([_cell(row[column]) for column in COLUMNS])
    return buffer.getvalue().encode()


def _cell(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
