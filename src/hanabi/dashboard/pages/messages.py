"""Messages: search by id, key, time and text; one message; send; the live tail."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final

import msgspec
from starlette.responses import Response, StreamingResponse

from hanabi.admin.messages import TraceEvent
from hanabi.admin.topics import kind_of
from hanabi.client.producer.producer import Producer
from hanabi.dashboard.bodies.forms import FORMS, SCHEMA_FORMS, TopicForm, decoded
from hanabi.dashboard.cluster.json_path import json_filter
from hanabi.dashboard.cluster.tail import Filter, filter_of, tail
from hanabi.dashboard.jobs.jobs import Job
from hanabi.dashboard.jobs.search import Wanted, search
from hanabi.dashboard.render.timeline import bars
from hanabi.dashboard.security.roles import Role
from hanabi.dashboard.web.routing import PageRoute
from hanabi.dashboard.web.times import parse_time
from hanabi.dashboard.web.visit import Visit
from hanabi.errors import InvalidParameter, MQError, QueryNotFound, TopicNotExist
from hanabi.message import Message, StoredMessage
from hanabi.wire.message import property_names

KEY_FOUND_MAX: Final = 64
FIRST_SCAN: Final = 2_000  # messages that a page reads at once; a job reads the rest
GROUP: Final = "hanabi_dashboard"
BODY_MAX: Final = 4 << 20
LIVE_MAX: Final = 16
LINE_MAX: Final = 300
TOPICS_SEARCHED_MAX: Final = 2_000


class Consumption(msgspec.Struct, frozen=True, kw_only=True):
    """State of one message at one group: consumed, waiting, or not known."""

    group: str
    state: str


async def messages(visit: Visit) -> Response:
    """Search. A key without a topic is looked up in all topics, by the brokers' index."""
    identity, key, topic = visit.text("id"), visit.text("key"), visit.text("topic")
    if identity:
        return visit.to("/messages/view", id=identity, topic=topic)
    job: Job | None = None
    found: list[StoredMessage] = []
    problem = ""
    if key:
        found, problem = await _by_key(visit, topic, key)
    elif topic:
        wanted = _wanted(visit)
        job = Job("search", topic, visit.user, visit.parts.now_ms(), "")
        try:
            async with asyncio.timeout(visit.parts.config.page_seconds):
                await search(visit.parts.cluster.admin, wanted, job, scanned_max=FIRST_SCAN)
        except TimeoutError:
            job.problem = f"stopped after {visit.parts.config.page_seconds:g} s: there may be more"
        found = job.rows
    fields = {name: visit.text(name) for name in ("topic", "key", "from", "until", "text", "tags")}
    return visit.page(
        "messages.html", found=found, job=job, problem=problem, fields=fields, searched=bool(key or topic)
    )


def _wanted(visit: Visit) -> Wanted:
    now = visit.parts.now_ms()
    return Wanted(
        topic=visit.text("topic"),
        from_ms=parse_time(visit.text("from"), now),
        until_ms=parse_time(visit.text("until"), now),
        text=visit.text("text"),
        tags=visit.text("tags") or "*",
    )


async def _by_key(visit: Visit, topic: str, key: str) -> tuple[list[StoredMessage], str]:
    admin = visit.parts.cluster.admin
    if topic:
        return await admin.messages.query(topic, key, count=KEY_FOUND_MAX), ""
    names = [name for name in (await visit.parts.cluster.topic_names()).value or () if kind_of(name) == "normal"]
    if len(names) > TOPICS_SEARCHED_MAX:
        raise InvalidParameter(f"there are {len(names)} topics, too many to look through: say the topic")
    found: list[StoredMessage] = []
    gate, missing = asyncio.Semaphore(8), []

    async def look(name: str) -> None:
        async with gate:
            try:
                found.extend(await admin.messages.query(name, key, count=KEY_FOUND_MAX))
            except MQError as error:
                missing.append(f"{name}: {error}")

    await asyncio.gather(*map(look, names))
    return sorted(found, key=lambda each: each.store_timestamp_ms), "; ".join(missing[:3])


async def start_search(visit: Visit) -> Response:
    """Search on as a job, which reads the whole time range."""
    wanted = _wanted(visit)
    if not wanted.topic:
        raise InvalidParameter("say the topic")
    admin = visit.parts.cluster.admin
    back = "/messages"

    async def work(job: Job) -> None:
        await search(admin, wanted, job)

    job = visit.parts.jobs.start("search", wanted.topic, visit.user, back, work, alone=False)
    return visit.to(f"/jobs/{job.id}")


async def view(visit: Visit) -> Response:
    """Show one message: properties, body, trace, and its consumption by each group."""
    identity, topic = visit.text("id"), visit.text("topic")
    admin = visit.parts.cluster.admin
    try:
        message = await admin.messages.get(identity, topic or None)
    except QueryNotFound as error:
        if "no broker is at" in str(error):
            raise QueryNotFound(f"{error}. That address is not a broker of this cluster; it was not asked.") from error
        raise
    events, consumption = await asyncio.gather(_trace(visit, message), _consumption(visit, message))
    given = visit.parts.forms.find(message.topic)
    return visit.page(
        "message.html",
        message=message,
        body=decoded(message.body, visit.text("as"), given),
        forms=[*FORMS, *((given.form,) if given and given.form in SCHEMA_FORMS else ())],
        all_forms=[*FORMS, *SCHEMA_FORMS],
        given=given,
        events=events,
        bars=bars(events[0] or ()),
        first_ms=min((event.time for event in events[0] or ()), default=0),
        consumption=consumption,
    )


async def _trace(visit: Visit, message: StoredMessage) -> tuple[list[TraceEvent] | None, str]:
    try:
        return await visit.parts.cluster.admin.messages.trace(message.message_id), ""
    except MQError as error:
        return None, str(error)


async def _consumption(visit: Visit, message: StoredMessage) -> list[Consumption]:
    """Compare the offset of each group in the message's queue with the message's."""
    cluster = visit.parts.cluster
    groups = await cluster.topic_groups(message.topic)
    names = sorted({name for _, each in groups.value.found for name in each})[:50] if groups.value else []
    progress = await cluster.progress_of(names, message.topic)
    result = []
    for name in names:
        known = progress[name].value
        offsets = [
            queue.group_offset
            for queue in (known.queues if known else ())
            if (queue.broker, queue.queue_id) == (message.broker_name, message.queue_id)
        ]
        state = "not known" if not offsets else "consumed" if offsets[0] > message.queue_offset else "waiting"
        result.append(Consumption(group=name, state=state))
    return result


async def send_form(visit: Visit) -> Response:
    """Show the form for a message."""
    return visit.page("send.html", name=visit.name("topic"))


async def send(visit: Visit) -> Response:
    """Send one message to a topic that exists, and show it."""
    topic = visit.name("topic")
    names = await visit.parts.cluster.topic_names()
    if names.value is not None and topic not in names.value:
        raise TopicNotExist(f"no name server knows topic {topic}")
    body = (visit.form.get("body") or [""])[0].replace("\r\n", "\n").encode()
    if len(body) > BODY_MAX:
        raise InvalidParameter(f"the body has {len(body)} bytes, more than {BODY_MAX}")
    message = Message(
        topic,
        body,
        tags=visit.text("tags") or None,
        keys=visit.text("keys").split(),
        properties=properties_of(visit.text("properties", most=32_000)),
        delay_level=visit.number("delay", 0, 0, 100),
    )
    return await _sent(visit, message, "send")


def properties_of(text: str) -> dict[str, str]:
    """Return the properties in lines of name=value. Pure."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, sign, value = line.partition("=")
        if line.strip():
            if not sign or not name.strip():
                raise InvalidParameter(f"properties: {line!r} is not name=value")
            found[name.strip()] = value.strip()
    return found


async def send_again(visit: Visit) -> Response:
    """Send a copy of a stored message to its topic, with a new id."""
    old = await visit.parts.cluster.admin.messages.get(visit.text("id"), visit.text("topic") or None)
    if kind_of(old.topic) != "normal":
        raise InvalidParameter(f"{old.topic} is not a topic of users: resend dead letters on their page")
    own = {name: value for name, value in old.properties.items() if name not in property_names.RESERVED}
    return await _sent(
        visit, Message(old.topic, old.body, tags=old.tags, keys=list(old.keys), properties=own), "send again"
    )


async def _sent(visit: Visit, message: Message, action: str) -> Response:
    async with Producer(GROUP, config=visit.parts.client) as producer:
        result = await producer.send(message)
    visit.note(action, message.topic, f"message {result.message_id}, {len(message.body)} bytes")
    visit.parts.cluster.collector.forget("queues", message.topic)
    place = f"{result.status.name}: {result.queue.broker_name}, queue {result.queue.queue_id}, {result.queue_offset}"
    return visit.to("/messages/view", id=result.message_id, topic=message.topic, done=place)


async def live(visit: Visit) -> Response:
    """Show the page of the live tail."""
    fields = {key: visit.text(key) for key in ("filter", "json", "tags")}
    _live_filter(visit)
    return visit.page("live.html", name=visit.name("topic"), fields=fields)


def _live_filter(visit: Visit) -> Filter:
    """Return the filter of the live tail: SQL92 over properties and fields, and paths into a JSON body."""
    sql, of_body = filter_of(visit.text("filter")), json_filter(visit.text("json"))
    return lambda message: sql(message) and of_body(message.body)


async def remember_form(visit: Visit) -> Response:
    """Remember how bodies of a topic are shown, for everybody; or forget it."""
    topic, form = visit.name("topic"), visit.text("form")
    schema = (visit.form.get("schema") or [""])[0].strip()
    chosen = TopicForm(form=form, schema=schema, message=visit.text("message")) if form else None
    visit.parts.forms.put(topic, chosen)
    visit.note("form of bodies", topic, form or "forgotten")
    back = visit.text("id")
    return visit.to("/messages/view", id=back, topic=topic) if back else visit.to(f"/topics/{topic}")


async def stream(visit: Visit) -> Response:
    """Send new messages as they come, as server-sent events; the pulls stop when the browser leaves."""
    parts, topic = visit.parts, visit.name("topic")
    wanted, tags = _live_filter(visit), visit.text("tags") or "*"
    if len(parts.live) >= LIVE_MAX:
        raise InvalidParameter(f"{LIVE_MAX} live pages are open already")
    await parts.cluster.admin.access.route(topic)
    token = object()

    async def events() -> AsyncIterator[bytes]:
        parts.live.add(token)
        try:
            yield b": ready\n\n"
            async with aclosing(tail(parts.cluster.admin, topic, tags, wanted)) as found:
                async for message in found:
                    if await visit.request.is_disconnected():
                        return
                    yield b": \n\n" if message is None else b"data: " + msgspec.json.encode(_line(message)) + b"\n\n"
        finally:
            parts.live.discard(token)

    return StreamingResponse(events(), media_type="text/event-stream")


def _line(message: StoredMessage) -> dict[str, Any]:
    text = message.body[: LINE_MAX * 4].decode(errors="replace")[:LINE_MAX]
    return {
        "id": message.message_id,
        "time": message.store_timestamp_ms,
        "queue": f"{message.broker_name} {message.queue_id}",
        "offset": message.queue_offset,
        "tags": message.tags or "",
        "keys": " ".join(message.keys),
        "body": text,
    }


PAGES = [
    PageRoute("/messages", messages),
    PageRoute("/messages/search", start_search, method="POST"),
    PageRoute("/messages/view", view),
    PageRoute("/messages/again", send_again, Role.OPERATOR, "POST"),
    PageRoute("/topics/{topic}/send", send_form, Role.OPERATOR),
    PageRoute("/topics/{topic}/send", send, Role.OPERATOR, "POST"),
    PageRoute("/topics/{topic}/form", remember_form, Role.OPERATOR, "POST", local=True),
    PageRoute("/topics/{topic}/live", live),
    PageRoute("/topics/{topic}/stream", stream),
]
