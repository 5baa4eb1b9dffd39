"""Users and rights at the brokers: users, their policies, and changes with a preview of what they change."""

from starlette.responses import Response

from hanabi.admin.users import PolicyLine
from hanabi.dashboard.security.roles import Role
from hanabi.dashboard.web.routing import PageRoute
from hanabi.dashboard.web.visit import Visit
from hanabi.errors import InvalidParameter, MQError
from hanabi.wire.bodies.acl import PolicyEntryInfo, UserInfo

ACTIONS = ("All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List")
DECISIONS = ("Allow", "Deny")
KINDS = ("Normal", "Super")


async def listing(visit: Visit) -> Response:
    """Show the users of the brokers and their policies, as the first master tells them."""
    users, search = visit.parts.cluster.admin.users, visit.text("q")
    found, lines, problem = [], [], ""
    try:
        found, lines = await users.find(search), await users.policies(search)
    except MQError as error:
        problem = str(error)
    return visit.page(
        "rights.html",
        users=found,
        lines=lines,
        problem=problem,
        q=search,
        actions=ACTIONS,
        decisions=DECISIONS,
        kinds=KINDS,
    )


async def preview(visit: Visit) -> Response:
    """Show what a grant or a revocation would change; nothing has changed yet."""
    user, entry = visit.text("user"), _entry(visit)
    before = await _line(visit, user, entry.resource or "")
    return visit.page(
        "right.html",
        user=user,
        entry=entry,
        before=before,
        revoke=visit.text("do") == "revoke",
        fields=_fields(visit),
    )


async def change(visit: Visit) -> Response:
    """Grant or revoke, at all masters and slaves."""
    user, entry, users = visit.text("user"), _entry(visit), visit.parts.cluster.admin.users
    before = await _line(visit, user, entry.resource or "")
    if visit.text("do") == "revoke":
        await users.revoke(user, entry.resource)
        done = f"{_text(before)} → nothing"
    else:
        await users.grant(user, [entry])
        done = f"{_text(before)} → {entry.decision} {','.join(entry.actions or ())}"
    visit.note("rights", f"{user} on {entry.resource}", done)
    return visit.to("/rights", q=user, done=f"{user}, {entry.resource}: {done}")


async def put_user(visit: Visit) -> Response:
    """Create a user of the brokers, or change its password, type or status."""
    name, password = visit.text("name", most=127), (visit.form.get("password") or [""])[0]
    kind, users = visit.text("type", "Normal"), visit.parts.cluster.admin.users
    if not name or kind not in KINDS:
        raise InvalidParameter(f"a user needs a name, and a type of {' or '.join(KINDS)}")
    known = any(each.user == name for each in await users.find(name))
    info = UserInfo(username=name, password=password or None, user_type=kind)
    if known:
        await users.update(name, info)
    elif not password:
        raise InvalidParameter(f"a new user needs a password: {name} has none")
    else:
        await users.create(name, info)
    visit.note(
        "broker user", name, f"{'changed' if known else 'created'}, {kind}{', new password' if password else ''}"
    )
    return visit.to("/rights", q=name, done=f"{name}: {kind}")


async def delete_user(visit: Visit) -> Response:
    """Delete a user of the brokers with its policies, if its name was typed."""
    name = visit.text("name", most=127)
    if visit.text("confirm") != name or not name:
        raise InvalidParameter(f"type the name of the user, {name}, to delete it")
    await visit.parts.cluster.admin.users.delete(name)
    visit.note("delete broker user", name)
    return visit.to("/rights", done=f"{name} deleted")


async def _line(visit: Visit, user: str, resource: str) -> PolicyLine | None:
    if not user:
        raise InvalidParameter("say the user")
    lines = await visit.parts.cluster.admin.users.policies(user)
    return next((line for line in lines if (line.user, line.resource) == (user, resource)), None)


def _entry(visit: Visit) -> PolicyEntryInfo:
    resource = visit.text("resource", most=255)
    actions, decision = visit.text("actions", "Pub"), visit.text("decision", "Allow")
    if not resource or (resource != "*" and ":" not in resource):
        raise InvalidParameter(
            "a resource is Topic:NAME, Group:NAME, Cluster:NAME, with * at the end for a prefix, or *"
        )
    if decision not in DECISIONS:
        raise InvalidParameter(f"a decision is {' or '.join(DECISIONS)}")
    chosen = [each.strip() for each in actions.split(",") if each.strip()]
    sources = [each.strip() for each in visit.text("sources").split(",") if each.strip()]
    return PolicyEntryInfo(resource=resource, actions=chosen, decision=decision, source_ips=sources or None)


def _fields(visit: Visit) -> dict[str, str]:
    defaults = {"actions": "Pub", "decision": "Allow", "do": "grant"}
    return {
        name: visit.text(name, defaults.get(name, ""))
        for name in ("user", "resource", "actions", "decision", "sources", "do")
    }


def _text(line: PolicyLine | None) -> str:
    return "nothing" if line is None else f"{line.decision} {','.join(line.actions)}"


PAGES = [
    PageRoute("/rights", listing, Role.ADMINISTRATOR),
    PageRoute("/rights/preview", preview, Role.ADMINISTRATOR),
    PageRoute("/rights", change, Role.ADMINISTRATOR, "POST"),
    PageRoute("/rights/user", put_user, Role.ADMINISTRATOR, "POST"),
    PageRoute("/rights/user/delete", delete_user, Role.ADMINISTRATOR, "POST"),
]
