"""Jobs: their list, their progress, and cancelling them."""

from starlette.responses import Response

from hanabi.dashboard.cluster.accounts import USER_PREFIX
from hanabi.dashboard.jobs.jobs import Job
from hanabi.dashboard.security.roles import Role
from hanabi.dashboard.web.routing import PageRoute
from hanabi.dashboard.web.visit import Visit
from hanabi.errors import InvalidParameter, QueryNotFound


async def listing(visit: Visit) -> Response:
    """Show all jobs."""
    return visit.page("jobs.html", jobs=[job for job in visit.parts.jobs.all() if _may_see(visit, job)])


async def job(visit: Visit) -> Response:
    """Show one job. The page asks for its progress while it runs."""
    return visit.page("job.html", job=_found(visit, visit.name("id")))


async def cancel(visit: Visit) -> Response:
    """Cancel a job: the own one, or any as an administrator."""
    found = _found(visit, visit.text("id"))
    if found.user != visit.user and visit.role is not Role.ADMINISTRATOR:
        raise InvalidParameter(f"this job is {found.user}'s")
    if found.is_running:
        await visit.parts.jobs.cancel(found.id)
        visit.note("cancel", f"{found.kind} {found.subject}", f"{found.done} done")
    return visit.to(f"/jobs/{found.id}")


def _may_see(visit: Visit, job: Job) -> bool:
    """Return whether a job is the visitor's to see: what an account of the brokers found is its own only."""
    return job.user == visit.user or not (visit.is_account or job.user.startswith(USER_PREFIX))


def _found(visit: Visit, identity: str) -> Job:
    found = visit.parts.jobs.find(identity)
    if found is None or not _may_see(visit, found):
        raise QueryNotFound("there is no such job; jobs end with the dashboard, and old ones are forgotten")
    return found


PAGES = [
    PageRoute("/jobs", listing),
    PageRoute("/jobs/{id}", job),
    PageRoute("/jobs/cancel", cancel, method="POST"),
]
