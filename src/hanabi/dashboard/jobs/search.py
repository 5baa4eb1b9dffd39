"""Search of a topic for messages by time, text and tag, by reading it."""

import asyncio
from typing import Final

import msgspec

from hanabi.admin import Admin, Range
from hanabi.dashboard.jobs.jobs import Job
from hanabi.message import StoredMessage

FOUND_MAX: Final = 200
SCANNED_MAX: Final = 5_000_000
_YIELD_EVERY: Final = 256


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Messages to search for. Without a text, all of the time."""

    topic: str
    from_ms: int | None = None
    until_ms: int | None = None
    text: str = ""
    tags: str = "*"

    @property
    def range(self) -> Range:
        return Range(from_ms=self.from_ms, until_ms=self.until_ms, tags=self.tags)


def matches(message: StoredMessage, text: str) -> bool:
    """Return whether *text* is in the body, the id, or the properties; as it is written."""
    if not text or text.encode() in message.body or text == message.message_id:
        return True
    return any(text in value for value in message.properties.values())


async def search(admin: Admin, wanted: Wanted, job: Job, *, scanned_max: int = SCANNED_MAX) -> None:
    """Read the topic and keep the messages that match; stop at the limits, which the job then tells."""
    status = await admin.topics.status(wanted.topic)
    job.total = status.messages
    reading = admin.messages.read(wanted.topic, wanted.range)
    try:
        async for message in reading:
            job.done += 1
            if matches(message, wanted.text):
                job.found += 1
                job.rows.append(message)
            if len(job.rows) >= FOUND_MAX or job.done >= scanned_max:
                job.problem = f"stopped after {job.found} found and {job.done} read: there may be more"
                return
            if job.done % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
    finally:
        await reading.aclose()
