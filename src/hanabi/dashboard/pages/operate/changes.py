"""Changes of topics, groups and brokers' settings. Each is a form, is noted in the audit log, and is shown after."""

import re
from typing import Final

from starlette.responses import Response

from hanabi.admin import GroupChange, TopicChange, Where
from hanabi.admin.topics import TopicOnBroker, kind_of
from hanabi.dashboard.security.roles import Role
from hanabi.dashboard.web.routing import PageRoute
from hanabi.dashboard.web.visit import Visit
from hanabi.errors import InvalidParameter

QUEUES_MAX: Final = 1_024
PERMISSIONS: Final = {"read and write": 6, "read only": 4, "write only": 2}
_NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]{1,127}")
# Paths and commands: changing them remotely was CVE-2023-33246 and CVE-2023-37582. Our brokers refuse them anyway.
_UNSAFE: Final = re.compile(
    r"home|path|dir|file|script|class|command|address|addr|auth|acl|password|secret", re.IGNORECASE
)


def checked_name(text: str) -> str:
    """Return a name that a topic or a group may have."""
    if not _NAME.fullmatch(text):
        raise InvalidParameter("a name has 1 to 127 letters, digits and % | _ -")
    return text


async def new_topic(visit: Visit) -> Response:
    """Show the form of a new topic."""
    return visit.page("topic_new.html", permissions=list(PERMISSIONS))


async def create_topic(visit: Visit) -> Response:
    """Create a topic on the masters of one cluster."""
    name = checked_name(visit.text("name", most=127))
    read, write = (visit.number(key, 8, 1, QUEUES_MAX) for key in ("read", "write"))
    where = Where(cluster=visit.text("cluster") or None)
    perm = _permission(visit)
    await visit.parts.cluster.admin.topics.create(name, read_queues=read, write_queues=write, perm=perm, where=where)
    visit.note("create topic", name, f"{read} read and {write} write queues, permission {perm}")
    visit.parts.cluster.collector.forget("topics")
    visit.parts.cluster.collector.forget("topic-configs")
    return visit.to(f"/topics/{name}", done=f"topic {name} created")


async def change_topic(visit: Visit) -> Response:
    """Change the queues and the permission of a topic on all its brokers."""
    name, admin = visit.name("topic"), visit.parts.cluster.admin
    await _refuse_system(visit, name)
    before = await admin.topics.settings(name)
    change = TopicChange(
        read_queues=visit.number("read", 0, 1, QUEUES_MAX) or None,
        write_queues=visit.number("write", 0, 1, QUEUES_MAX) or None,
        perm=_permission(visit),
    )
    after = await admin.topics.update(name, change)
    visit.note("change topic", name, f"{_settings(before)} → {_settings(after)}")
    visit.parts.cluster.collector.forget("topic-configs")
    visit.parts.cluster.collector.forget("queues", name)
    return visit.to(f"/topics/{name}", done=f"{_settings(before)} → {_settings(after)}")


def _settings(found: list[TopicOnBroker]) -> str:
    return ", ".join(f"{each.broker}: {each.read_queues}/{each.write_queues} perm {each.perm}" for each in found)


def _permission(visit: Visit) -> int:
    wanted = visit.text("perm", "read and write")
    if wanted not in PERMISSIONS:
        raise InvalidParameter(f"permission must be one of {', '.join(PERMISSIONS)}")
    return PERMISSIONS[wanted]


async def delete_topic(visit: Visit) -> Response:
    """Delete a topic with its messages, if its name was typed."""
    name, admin = visit.name("topic"), visit.parts.cluster.admin
    await _refuse_system(visit, name)
    if visit.text("confirm") != name:
        raise InvalidParameter(f"type the name of the topic, {name}, to delete it")
    messages = await admin.topics.messages_to_delete(name)
    brokers = await admin.topics.delete(name)
    visit.note("delete topic", name, f"{messages} messages on {', '.join(brokers)}")
    visit.parts.cluster.collector.forget()
    return visit.to("/topics", done=f"topic {name} deleted, with {messages} messages")


async def _refuse_system(visit: Visit, name: str) -> None:
    if kind_of(name, await visit.parts.cluster.system_topics()) == "system":
        raise InvalidParameter(f"{name} belongs to the brokers: it is not changed here")


async def create_group(visit: Visit) -> Response:
    """Create a consumer group on the masters of one cluster."""
    name = checked_name(visit.text("name", most=127))
    retries = visit.number("retries", 16, 0, 1_000)
    where = Where(cluster=visit.text("cluster") or None)
    await visit.parts.cluster.admin.groups.create(name, GroupChange(retry_max=retries), where)
    visit.note("create group", name, f"at most {retries} retries")
    visit.parts.cluster.collector.forget("group-configs")
    return visit.to(f"/groups/{name}", done=f"group {name} created")


async def delete_group(visit: Visit) -> Response:
    """Delete a group and its offsets, if its name was typed. Its dead letters stay."""
    name = visit.name("group")
    if visit.text("confirm") != name:
        raise InvalidParameter(f"type the name of the group, {name}, to delete it")
    brokers = await visit.parts.cluster.admin.groups.delete(name)
    visit.note("delete group", name, f"on {', '.join(brokers)}")
    visit.parts.cluster.collector.forget()
    return visit.to("/groups", done=f"group {name} deleted")


async def preview_setting(visit: Visit) -> Response:
    """Show a change of a broker's setting: old and new value."""
    address, key, value = visit.name("address"), visit.text("key"), visit.text("value")
    old = await _old_value(visit, address, key)
    return visit.page("setting.html", address=address, key=key, value=value, old=old)


async def change_setting(visit: Visit) -> Response:
    """Change one setting of one broker. The broker decides, too, which may be changed while it runs."""
    address, key, value = visit.name("address"), visit.text("key"), visit.text("value")
    old = await _old_value(visit, address, key)
    await visit.parts.cluster.admin.brokers.configure({key: value}, Where(broker=address))
    visit.parts.cluster.collector.forget("config", address)
    new = await _old_value(visit, address, key)
    visit.note("broker setting", address, f"{key}: {old} → {new}")
    return visit.to(f"/brokers/{address}", q=key, done=f"{key}: {old} → {new}")


async def _old_value(visit: Visit, address: str, key: str) -> str:
    rows, _ = await visit.parts.cluster.brokers()
    if address not in {row.summary.address for row in rows}:
        raise InvalidParameter(f"{address} is not a broker of this cluster")
    if _UNSAFE.search(key):
        raise InvalidParameter(f"{key} is not changed by the dashboard: change it in the broker's file")
    (table,) = await visit.parts.cluster.admin.brokers.config(Where(broker=address))
    if key not in table.values:
        raise InvalidParameter(f"broker {address} has no setting {key!r}")
    return table.values[key]


PAGES = [
    PageRoute("/new/topic", new_topic, Role.OPERATOR),
    PageRoute("/new/topic", create_topic, Role.OPERATOR, "POST"),
    PageRoute("/new/group", create_group, Role.OPERATOR, "POST"),
    PageRoute("/topics/{topic}/change", change_topic, Role.OPERATOR, "POST"),
    PageRoute("/topics/{topic}/delete", delete_topic, Role.ADMINISTRATOR, "POST"),
    PageRoute("/groups/{group}/delete", delete_group, Role.ADMINISTRATOR, "POST"),
    PageRoute("/brokers/{address}/setting", preview_setting, Role.ADMINISTRATOR),
    PageRoute("/brokers/{address}/setting", change_setting, Role.ADMINISTRATOR, "POST"),
]
