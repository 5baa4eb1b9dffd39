"""Users of the dashboard, for administrators; the own password, for everybody; and the audit log."""

from starlette.responses import Response

from hanabi.dashboard.security.roles import Role
from hanabi.dashboard.web.routing import PageRoute
from hanabi.dashboard.web.visit import Visit
from hanabi.errors import InvalidParameter


async def listing(visit: Visit) -> Response:
    """Show users to administrators; to others only the form for their own password."""
    roles = visit.parts.users.roles() if visit.role is Role.ADMINISTRATOR else {}
    return visit.page("users.html", users=roles, role_names=[role.title for role in Role])


async def put(visit: Visit) -> Response:
    """Create a user, or change one. Its sessions end."""
    name, password = visit.text("name", most=64), (visit.form.get("password") or [""])[0]
    role = Role.named(visit.text("role"))
    if role is None:
        raise InvalidParameter(f"role must be one of {', '.join(each.title for each in Role)}")
    await visit.parts.users.put(name, role, password or None)
    visit.parts.sessions.end_all_of(name)
    visit.note("user", name, f"role {role.title}{', new password' if password else ''}")
    return visit.to("/users", done=f"{name}: {role.title}")


async def delete(visit: Visit) -> Response:
    """Delete a user and end its sessions."""
    name = visit.text("name", most=64)
    visit.parts.users.delete(name)
    visit.parts.sessions.end_all_of(name)
    visit.note("delete user", name)
    return visit.to("/users", done=f"{name} deleted")


async def own_password(visit: Visit) -> Response:
    """Change the own password, with the old one; all sessions of the user end."""
    users, address = visit.parts.users, visit.arrival.address
    old, new = ((visit.form.get(key) or [""])[0] for key in ("old", "new"))
    if visit.parts.throttle.wait_s(visit.user, address) > 0:
        raise InvalidParameter("too many wrong passwords: wait a while")
    role = await users.check(visit.user, old)
    if role is None:
        visit.parts.throttle.failed(visit.user, address)
        raise InvalidParameter("the old password is another one")
    await users.put(visit.user, role, new)
    visit.note("password", visit.user)
    visit.parts.sessions.end_all_of(visit.user)
    return visit.to("/login")


async def audit(visit: Visit) -> Response:
    """Show the newest events of the audit log."""
    search = visit.text("q").lower()
    events = [
        event
        for event in reversed(visit.parts.audit.newest)
        if search in f"{event.user} {event.address} {event.action} {event.subject} {event.verdict}".lower()
    ]
    return visit.page("audit.html", events=events, q=visit.text("q"))


PAGES = [
    PageRoute("/users", listing, local=True),
    PageRoute("/users", put, Role.ADMINISTRATOR, "POST", local=True),
    PageRoute("/users/delete", delete, Role.ADMINISTRATOR, "POST", local=True),
    PageRoute("/password", own_password, Role.READER, "POST", local=True),
    PageRoute("/audit", audit, Role.ADMINISTRATOR, local=True),
]
