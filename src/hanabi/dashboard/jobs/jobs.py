"""Jobs: bounded in number, found again by their id, cancelled by their page or at the end."""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Final

from hanabi.errors import InvalidParameter, MQError

RUNNING_MAX: Final = 8
KEPT_MAX: Final = 100


class Job:
    """One job and its progress. The work itself counts `done` and `found`, and adds to `rows`."""

    def __init__(self, kind: str, subject: str, user: str, began_ms: int, back: str) -> None:
        self.id = secrets.token_urlsafe(12)
        self.kind, self.subject, self.user, self.began_ms, self.back = kind, subject, user, began_ms, back
        self.state = "running"  # or done, cancelled, failed
        self.total: int | None = None
        self.done = 0
        self.found = 0
        self.rows: list[Any] = []
        self.problem = ""

    @property
    def is_running(self) -> bool:
        return self.state == "running"


class Jobs:
    """Jobs that run, and those that ended a while ago."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._jobs: OrderedDict[str, tuple[Job, asyncio.Task[None]]] = OrderedDict()

    def start(
        self, kind: str, subject: str, user: str, back: str, work: Callable[[Job], Awaitable[None]], *, alone: bool
    ) -> Job:
        """Start a job; with *alone* no other of this kind may run on the same subject."""
        running = [job for job, _ in self._jobs.values() if job.is_running]
        if len(running) >= RUNNING_MAX:
            raise InvalidParameter(f"{RUNNING_MAX} jobs are running already: wait for one, or cancel it")
        if alone and any((job.kind, job.subject) == (kind, subject) for job in running):
            raise InvalidParameter(f"there is a {kind} of {subject} already: see jobs")
        job = Job(kind, subject, user, self._now_ms(), back)
        self._jobs[job.id] = (job, asyncio.create_task(_run(job, work)))
        while len(self._jobs) > KEPT_MAX:
            oldest = next(identity for identity, (each, _) in self._jobs.items() if not each.is_running)
            del self._jobs[oldest]
        return job

    def find(self, identity: str) -> Job | None:
        """Return a job."""
        return self._jobs[identity][0] if identity in self._jobs else None

    def all(self) -> list[Job]:
        """Return all jobs, the newest first."""
        return [job for job, _ in reversed(self._jobs.values())]

    async def cancel(self, identity: str) -> None:
        """Cancel a job, and wait until it ended. What it did stays."""
        _, task = self._jobs[identity]
        task.cancel()
        await asyncio.wait({task})

    async def close(self) -> None:
        """Cancel all jobs."""
        for identity in list(self._jobs):
            await self.cancel(identity)


async def _run(job: Job, work: Callable[[Job], Awaitable[None]]) -> None:
    try:
        await work(job)
        job.state = "done"
    except asyncio.CancelledError:
        job.state = "cancelled"
    except MQError as error:
        job.state, job.problem = "failed", str(error)
    finally:
        if job.state == "running":
            job.state, job.problem = "failed", "an error of the dashboard, which its log has"
