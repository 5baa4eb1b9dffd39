"""Dead letters are sent again once each, whenever it is interrupted."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from hanabi import aio
from hanabi.admin import Admin
from hanabi.admin.dead_letters import DeadLetterOffice
from hanabi.message import Message, StoredMessage
from hanabi.testing.cluster import Cluster, running_cluster
from hanabi.testing.waiting import within

LETTERS = 4


class SlowAnswers(DeadLetterOffice):
    """The broker has the letter, and its answer is on the way until somebody lets it come."""

    def __init__(self, other: DeadLetterOffice) -> None:
        super().__init__(other._access, other._topics, other._messages)
        self.stored, self.answer = asyncio.Event(), asyncio.Event()

    async def _send(self, letter: StoredMessage, topic: str, retry_topic_of: str | None) -> None:
        await super()._send(letter, topic, retry_topic_of)
        self.stored.set()
        await self.answer.wait()


async def kill_letters(cluster: Cluster, group: str) -> None:
    await cluster.create_topic("Mortal", queues=1)
    async with (
        aio.Producer("p", namesrv=cluster.namesrv) as producer,
        aio.PullConsumer(group, namesrv=cluster.namesrv, max_reconsume_times=0) as consumer,
    ):
        for number in range(LETTERS):
            await producer.send(Message("Mortal", b"%d" % number))
        (queue,) = await consumer.queues_of("Mortal")
        for message in (await consumer.pull(queue, 0)).messages:
            await consumer.send_back(message)
    await cluster.broker.registration.settled()


async def test_a_letter_whose_answer_is_on_the_way_at_ctrl_c_is_not_sent_twice(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, Admin(cluster.config()) as admin:
        await kill_letters(cluster, "mortal")
        office = SlowAnswers(admin.dead_letters)

        async def resend_all() -> None:
            async with aclosing(office.resend("mortal")) as resent:
                async for _ in resent:
                    raise AssertionError("interrupted before the first answer")

        resending = asyncio.create_task(resend_all())
        await within(office.stored.wait())
        resending.cancel()
        office.answer.set()
        with pytest.raises(asyncio.CancelledError):
            await within(resending)
        rest = [each.queue_offset async for each in admin.dead_letters.resend("mortal")]
        assert rest == list(range(1, LETTERS))
