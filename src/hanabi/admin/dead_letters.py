"""Dead letters: messages that groups failed on for good, and resending them.

A letter is resent to the retry topic of its group, so that no other group gets it again; or, if asked, to the topic
that it came from. It keeps its id, keys, tags and properties, and counts as never tried.

The progress of resending a queue is kept in the broker, as the offset of the tools' group in the dead-letter topic. So
an interrupted resend continues where it was: at most the last few letters are sent twice.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import Final

from hanabi.admin.access import Access, each
from hanabi.admin.answer import Answer
from hanabi.admin.messages import Messages
from hanabi.admin.topics import Topics
from hanabi.client.cluster.queue_access import QueueAccess
from hanabi.client.cluster.routes import Route
from hanabi.errors import ConfigError, InvalidParameter, TopicNotExist
from hanabi.message import MessageQueue, StoredMessage
from hanabi.wire.bodies.route import TopicList
from hanabi.wire.codes import RequestCode
from hanabi.wire.fastjson import decode_body
from hanabi.wire.headers.send import SendMessageV2Header
from hanabi.wire.message import property_names as names
from hanabi.wire.message.properties import format_properties
from hanabi.wire.system_names import DEAD_LETTER_PREFIX, DEFAULT_TOPIC, RETRY_PREFIX, TOOLS_GROUP

BOOKMARK_EVERY: Final = 16  # letters; as many may be sent twice after a crash
PRODUCER_GROUP: Final = "hanabi_dlq_resend"
SEND_SECONDS: Final = 10.0
_KEPT: Final = frozenset({names.KEYS, names.TAGS, names.UNIQUE_KEY, names.BUYER_ID, names.INSTANCE_ID})
_DROPPED: Final = frozenset({names.TRANSACTION_ID, names.RETRY_TOPIC})


class DeadLetters(Answer, frozen=True, kw_only=True):
    """Dead letters of a group; `waiting` are those that were not resent."""

    group: str
    topic: str
    messages: int
    waiting: int
    last_stored: int


class Resent(Answer, frozen=True, kw_only=True):
    """Result of one letter: resent to a topic, or the reason why not."""

    message_id: str
    broker: str
    queue_id: int
    queue_offset: int
    origin_topic: str | None
    to_topic: str | None
    sent: bool
    problem: str | None = None


def origin_of(letter: StoredMessage) -> str | None:
    """Return the topic that a letter came from, if it says so."""
    return letter.properties.get(names.DLQ_ORIGIN_TOPIC) or letter.properties.get(names.RETRY_TOPIC)


def properties_for(letter: StoredMessage, retry_topic_of: str | None) -> dict[str, str]:
    """Return the properties of a resent letter: its own, without those that brokers added."""
    kept = {
        name: value
        for name, value in letter.properties.items()
        if (name in _KEPT or name not in names.RESERVED)
        and name not in _DROPPED
        and not name.startswith(names.TRANSIENT_PREFIX)
    }
    if retry_topic_of is not None:
        kept[names.RETRY_TOPIC] = retry_topic_of
        origin_id = letter.properties.get(names.ORIGIN_MESSAGE_ID)
        if origin_id:
            kept[names.ORIGIN_MESSAGE_ID] = origin_id
    return kept


class DeadLetterOffice:
    """Queries and actions about dead letters."""

    def __init__(self, access: Access, topics: Topics, messages: Messages) -> None:
        self._access, self._topics, self._messages = access, topics, messages
        self._queues = QueueAccess(access.core)

    async def all(self) -> list[DeadLetters]:
        """Return all groups that have dead letters, or had some."""
        reply = await self._access.ask_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        topics = sorted(decode_body(reply.body, TopicList).topic_list)
        groups = [topic.removeprefix(DEAD_LETTER_PREFIX) for topic in topics if topic.startswith(DEAD_LETTER_PREFIX)]
        return await each(groups, self.of)

    async def of(self, group: str) -> DeadLetters:
        """Return the number of a group's dead letters."""
        topic = DEAD_LETTER_PREFIX + group
        await self._route(group)
        status = await self._topics.status(topic)
        waiting = 0
        for queue in status.queues:
            mark = await self._bookmark(MessageQueue(topic, queue.broker, queue.queue_id))
            waiting += queue.max_offset - max(mark or 0, queue.min_offset)
        return DeadLetters(
            group=group,
            topic=topic,
            messages=status.messages,
            waiting=waiting,
            last_stored=max((queue.last_stored for queue in status.queues), default=0),
        )

    async def read(self, group: str, *, again: bool = True) -> AsyncGenerator[StoredMessage, None]:
        """Read the dead letters of a group; without *again*, only those that were not resent."""
        for queue in (await self._route(group)).read_queues:
            start = 0 if again else await self._bookmark(queue) or 0
            async for letter in self._messages.read_queue(queue, start):
                yield letter

    async def resend(
        self,
        group: str,
        *,
        to_origin: bool = False,
        rate: float | None = None,
        again: bool = False,
        dry_run: bool = False,
        count: int | None = None,
        ids: Collection[str] = (),
        on_total: Callable[[int], None] = lambda _: None,
    ) -> AsyncGenerator[Resent, None]:
        """Resend letters, oldest first in each queue, at most *rate* a second and *count* in all.

        With *ids* only these, regardless of the bookmark. A letter that does not say where it came from is skipped.
        """
        if rate is not None and rate <= 0:
            raise ConfigError(f"rate must be more than 0 a second, not {rate}")
        on_total((await self.of(group)).messages if again or ids else (await self.of(group)).waiting)
        pace = _Pace(rate)
        left = count
        for queue in (await self._route(group)).read_queues:
            start = 0 if again or ids else await self._bookmark(queue) or 0
            async with self._bookmarking(queue, start, enabled=not dry_run and not ids) as sent_up_to:
                async for letter in self._messages.read_queue(queue, start):
                    if ids and letter.message_id not in ids and letter.offset_message_id not in ids:
                        continue
                    if left == 0:
                        return
                    if not dry_run:
                        await pace.wait()
                    resending = asyncio.ensure_future(self._resend(group, letter, to_origin=to_origin, dry_run=dry_run))
                    try:
                        resent = await asyncio.shield(resending)
                    except asyncio.CancelledError:
                        await resending  # the broker may have it: it counts, or it would be sent twice
                        await sent_up_to(letter.queue_offset + 1)
                        raise
                    yield resent
                    left = None if left is None else left - 1
                    await sent_up_to(letter.queue_offset + 1)

    async def _resend(self, group: str, letter: StoredMessage, *, to_origin: bool, dry_run: bool) -> Resent:
        origin = origin_of(letter)
        to_topic = (origin if to_origin else RETRY_PREFIX + group) if origin else None
        problem = None if to_topic else "it does not say which topic it came from"
        if to_topic and not dry_run:
            await self._send(letter, to_topic, None if to_origin else origin)
        return Resent(
            message_id=letter.message_id,
            broker=letter.broker_name,
            queue_id=letter.queue_id,
            queue_offset=letter.queue_offset,
            origin_topic=origin,
            to_topic=to_topic,
            sent=to_topic is not None and not dry_run,
            problem=problem,
        )

    async def _send(self, letter: StoredMessage, topic: str, retry_topic_of: str | None) -> None:
        route = await self._access.core.routes.find(topic)
        writable = sorted({queue.broker_name for queue in route.write_queues})
        if not writable:
            raise InvalidParameter(f"topic {topic} has no queue that may be written to")
        broker = letter.broker_name if letter.broker_name in writable else writable[0]
        address = route.master_of(broker)
        if address is None:
            raise InvalidParameter(f"topic {topic}: broker {broker} has no master now")
        header = SendMessageV2Header(
            producer_group=PRODUCER_GROUP,
            topic=topic,
            default_topic=DEFAULT_TOPIC,
            default_topic_queue_nums=4,
            queue_id=-1,  # the broker picks one
            sys_flag=0,
            born_timestamp=letter.born_timestamp_ms,
            flag=letter.flag,
            properties=format_properties(properties_for(letter, retry_topic_of)),
            reconsume_times=0,
            max_reconsume_times=1,  # otherwise the broker of a group without retries makes it a dead letter at once
        )
        await self._access.api.send_message(address, header, letter.body, SEND_SECONDS)

    async def _route(self, group: str) -> Route:
        try:
            return await self._access.route(DEAD_LETTER_PREFIX + group)
        except TopicNotExist as error:
            raise TopicNotExist(
                f"group {group} has no dead letters: there is no topic {DEAD_LETTER_PREFIX}{group}"
            ) from error

    async def _bookmark(self, queue: MessageQueue) -> int | None:
        address = await self._queues.reading_address(queue)
        found = await self._access.api.query_consumer_offset(address, TOOLS_GROUP, queue, set_zero_if_not_found=False)
        return None if found is None or found < 0 else found

    @asynccontextmanager
    async def _bookmarking(
        self, queue: MessageQueue, start: int, *, enabled: bool
    ) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
        """Return a function that records the letters sent; the broker gets it periodically, and always at the end."""
        saved = current = start

        async def save() -> None:
            nonlocal saved
            if enabled and current > saved:
                await self._queues.commit_offset(TOOLS_GROUP, queue, current)
                saved = current

        async def sent_up_to(offset: int) -> None:
            nonlocal current
            current = offset
            if current - saved >= BOOKMARK_EVERY:
                await save()

        try:
            yield sent_up_to
        finally:
            await save()


class _Pace:
    """Rate limit of letters per second."""

    def __init__(self, rate: float | None) -> None:
        self._seconds = 0.0 if rate is None else 1 / rate
        self._next = 0.0

    async def wait(self) -> None:
        if not self._seconds:
            return
        now = asyncio.get_running_loop().time()
        if now < self._next:
            await asyncio.sleep(self._next - now)
        self._next = max(now, self._next) + self._seconds
