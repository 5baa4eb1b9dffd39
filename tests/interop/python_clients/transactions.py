"""Transactions. The broker asks every second about what is older than five. As TransactionScenarios.java."""

import asyncio
from collections import Counter

from hanabi.client.producer.transaction_producer import TransactionProducer
from hanabi.client.send_result import SendResult, TransactionState
from hanabi.message import Message, StoredMessage
from hanabi.testing.waiting import eventually
from hanabi.wire.message.message_id import decode_offset_id
from tests.interop.python_clients.stage import WAIT_S, Stage, send, sent

PAST_A_CHECK_S = 7.0
STATES = {
    "commit": TransactionState.COMMIT,
    "rollback": TransactionState.ROLLBACK,
    "unknown": TransactionState.UNKNOWN,
}


class Transactions:
    """Ends them as their bodies say: "x, y, z" is x at first, then y and z when asked."""

    def __init__(self) -> None:
        self.questions: Counter[str] = Counter()

    def execute(self, message: Message, result: SendResult) -> TransactionState:
        return self._state(message.body.decode(), 0)

    async def check(self, message: StoredMessage) -> TransactionState:
        body = message.body.decode()
        self.questions[body] += 1
        return self._state(body, self.questions[body])

    @staticmethod
    def _state(body: str, time: int) -> TransactionState:
        states = body.split(", ")
        return STATES[states[min(time, len(states) - 1)]]

    async def producer(self, stage: Stage) -> TransactionProducer:
        producer = TransactionProducer(stage.unique("P"), config=stage.config, check=self.check, **stage.patient({}))
        return await stage.started(producer)

    async def send(self, producer: TransactionProducer, topic: str, body: str) -> SendResult:
        message = Message(topic, body.encode(), tags="A", keys=["key"], properties={"mine": "kept"})
        result = await producer.send_in_transaction(message, self.execute)
        assert (result.error, result.state) == (None, self._state(body, 0))
        return sent(result.send)


async def transaction_commit(stage: Stage) -> None:
    topic = await stage.topic(2)
    inbox = await stage.inbox(topic, "A")
    transactions = Transactions()
    await send(await stage.producer("P2"), topic, "B", "so that the half message is not the first of the log")
    result = await transactions.send(await transactions.producer(stage), topic, "commit")
    await inbox.exactly(["commit"])
    await asyncio.sleep(PAST_A_CHECK_S)
    await inbox.exactly(["commit"])
    assert not transactions.questions, "questions about what was committed"
    message = inbox.all[0].message
    assert (message.message_id, message.keys, message.properties["mine"]) == (result.message_id, ("key",), "kept")
    assert message.queue_id == result.queue.queue_id
    half = decode_offset_id(result.offset_message_id)
    assert message.prepared_offset == half.log_offset > 0, "the place of the half message"


async def transaction_rollback(stage: Stage) -> None:
    topic = await stage.topic(1)
    inbox = await stage.inbox(topic)
    transactions = Transactions()
    await transactions.send(await transactions.producer(stage), topic, "rollback")
    await asyncio.sleep(PAST_A_CHECK_S)
    await send(await stage.producer("P2"), topic, "A", "after")
    await inbox.exactly(["after"])
    assert not transactions.questions, "questions about what was rolled back"


async def transaction_check_back(stage: Stage) -> None:
    topic = await stage.topic(2)
    inbox = await stage.inbox(topic)
    transactions = Transactions()
    producer = await transactions.producer(stage)
    early, never, late = "unknown, commit", "unknown, rollback", "unknown, unknown, unknown, commit"
    for body in (early, never, late):
        await transactions.send(producer, topic, body)
    await inbox.bodies_came([early, late])
    await eventually(lambda: transactions.questions[never], "a question about what is rolled back then", seconds=WAIT_S)
    await asyncio.sleep(2.5)
    assert set(inbox.bodies) == {early, late}
    assert transactions.questions[late] >= 3
    assert inbox.all[0].message.properties["mine"] == "kept"
