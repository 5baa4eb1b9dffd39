"""Preparation of a measurement: topics and groups that it creates before, and removes after."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from hanabi.admin import Admin, GroupChange, Target, Where
from hanabi.errors import MQError, TopicNotExist

QUEUES: Final = 8
ROUTE_SECONDS: Final = 10.0  # until name servers tell of a topic that was made: brokers register now and then
AGAIN_SECONDS: Final = 0.1


class BenchTopic(msgspec.Struct, frozen=True):
    """A topic that is there now, and whether that is our doing."""

    topic: str
    queues: int
    brokers: list[str]
    created: bool


async def ensure_topic(admin: Admin, topic: str, *, create: bool) -> BenchTopic:
    """*topic*, made if it is not there and *create* allows it."""
    try:
        return await _described(admin, topic, created=False)
    except TopicNotExist as error:
        if not create:
            raise TopicNotExist(f"topic {topic} does not exist: --create makes it, with {QUEUES} queues") from error
    await admin.topics.create(topic, read_queues=QUEUES, write_queues=QUEUES)
    deadline = time.monotonic() + ROUTE_SECONDS
    while True:
        try:
            return await _described(admin, topic, created=True)
        except TopicNotExist:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(AGAIN_SECONDS)


async def _described(admin: Admin, topic: str, *, created: bool) -> BenchTopic:
    route = await admin.topics.route(topic)
    return BenchTopic(
        topic, sum(entry.write_queues for entry in route), sorted(entry.broker for entry in route), created
    )


class TemporaryGroup:
    """A group of this measurement alone. `trouble` says why it could not be removed, if so."""

    def __init__(self) -> None:
        self.name = f"hanabi_bench_{secrets.token_hex(4)}"
        self.removed = False
        self.trouble: str | None = None


@asynccontextmanager
async def temporary_group(admin: Admin, topic: str, *, first: bool) -> AsyncIterator[TemporaryGroup]:
    """Yield a group that begins at the first message of *topic*, or at its end; remove it afterwards, if allowed.

    Its offsets are set before it begins: Apache's brokers let a new group begin at the first message of a young topic,
    whatever it wants.
    """
    group, made = TemporaryGroup(), False
    try:
        for broker in await admin.access.topic_masters(topic):
            await admin.groups.create(group.name, GroupChange(), Where(broker=broker.broker))
            made = True
        await admin.offsets.reset(group.name, topic, Target(first=first, last=not first))
        yield group
    finally:
        if made:
            try:
                await admin.groups.delete(group.name)
                group.removed = True
            except MQError as error:
                group.trouble = str(error)
