"""The live tail of a topic: new messages that match a filter, until the reader leaves. Joins no group."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

from hanabi.admin import Admin
from hanabi.broker.filters.sql.compiled import compile_sql
from hanabi.client.cluster.queue_access import QueueAccess
from hanabi.client.consumer.pull_request import Pulling
from hanabi.client.consumer.subscription import subscription_data
from hanabi.errors import InvalidParameter, MQError
from hanabi.message import MessageQueue, StoredMessage
from hanabi.wire.bodies.heartbeat import SubscriptionData
from hanabi.wire.system_names import TOOLS_GROUP

WAITING_MAX: Final = 200  # messages that the browser did not take yet; then the oldest are dropped
HOLD_SECONDS: Final = 5.0
AGAIN_SECONDS: Final = 1.0
IDLE_SECONDS: Final = 1.0
FIELDS_MAX: Final = 500

Filter = Callable[[StoredMessage], bool]


def filter_of(text: str) -> Filter:
    """Return a filter from an SQL92 expression over properties and the fields of a JSON body."""
    if not text:
        return lambda _: True
    try:
        program = compile_sql(text)
    except (MQError, ValueError) as error:
        raise InvalidParameter(f"the filter cannot be read: {error}") from error
    if program.ignored.strip():
        raise InvalidParameter(f"the filter cannot be read from here on: {program.ignored}")
    return lambda message: program.matches({**json_fields(message.body), **message.properties})


def json_fields(body: bytes) -> dict[str, str]:
    """Return the scalar fields of a JSON object as text; `a.b` is the field b of a, and so is `a_b`. Pure."""
    if not body.startswith(b"{"):
        return {}
    try:
        found: dict[str, str] = {}
        _flatten(json.loads(body), "", found)
    except (ValueError, RecursionError):
        return {}
    return {**{name.replace(".", "_"): value for name, value in found.items()}, **found}


def _flatten(value: Any, path: str, found: dict[str, str]) -> None:
    if len(found) >= FIELDS_MAX:
        return
    if isinstance(value, dict):
        for name, each in value.items():
            _flatten(each, f"{path}.{name}" if path else name, found)
    elif isinstance(value, bool):
        found[path] = str(value).lower()
    elif isinstance(value, str | int | float):
        found[path] = str(value)


async def tail(admin: Admin, topic: str, tags: str, wanted: Filter) -> AsyncGenerator[StoredMessage | None, None]:
    """Yield messages stored from now on, and None each second without one. Closing it stops the pulls."""
    core = admin.access.core
    route = await admin.access.route(topic)
    if not route.read_queues:
        raise InvalidParameter(f"topic {topic} has no queue that may be read")
    waiting: asyncio.Queue[StoredMessage] = asyncio.Queue(WAITING_MAX)
    access, pulling = QueueAccess(core), Pulling(core, TOOLS_GROUP, tells_subscription=True)
    subscription = subscription_data(topic, tags, 0)
    starts = await asyncio.gather(*(access.end_offset(queue) for queue in route.read_queues))

    pulls = [
        asyncio.create_task(_follow(pulling, queue, offset, subscription, waiting, wanted))
        for queue, offset in zip(route.read_queues, starts, strict=True)
    ]
    try:
        while True:
            try:
                async with asyncio.timeout(IDLE_SECONDS):
                    message = await waiting.get()
            except TimeoutError:
                yield None
            else:
                yield message
    finally:
        for pull in pulls:
            pull.cancel()
        await asyncio.gather(*pulls, return_exceptions=True)


async def _follow(
    pulling: Pulling,
    queue: MessageQueue,
    offset: int,
    subscription: SubscriptionData,
    waiting: "asyncio.Queue[StoredMessage]",
    wanted: Filter,
) -> None:
    """Pull one queue for ever. If the reader is slow, the oldest waiting message is dropped."""
    while True:
        try:
            found = await pulling.pull(queue, offset, subscription, hold_s=HOLD_SECONDS)
        except MQError:
            await asyncio.sleep(AGAIN_SECONDS)  # the other pages show brokers that do not answer
            continue
        offset = found.next_offset
        for message in filter(wanted, found.messages):
            if waiting.full():
                waiting.get_nowait()
            waiting.put_nowait(message)
