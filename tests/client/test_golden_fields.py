"""For the same inputs, our client's requests carry the fields that Apache's client sent when it was recorded.

The story is that of tests/golden/README.md: the same groups, topic, tags and keys. What no two runs have in common
(times, ids, offsets, which queue) is compared by its presence alone.
"""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hanabi.client.consumer.listening.listener import ConsumeLater
from hanabi.client.consumer.push.consumer import PushConsumer
from hanabi.client.consumer.subscription import sql
from hanabi.client.producer.producer import Producer
from hanabi.client.producer.transaction_producer import TransactionProducer
from hanabi.client.send_result import SendResult, TransactionState
from hanabi.message import Message, StoredMessage
from hanabi.testing.cluster import running_cluster
from hanabi.testing.waiting import eventually
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import Command, decode_command
from hanabi.wire.message.properties import parse_properties
from tests.client.recording import Recorder, recording
from tests.golden_frames import golden_frames

ANY = "(any)"
VOLATILE = {
    # a send: queue, born timestamp
    "e",
    "g",
    "queueId",
    "queueOffset",
    "commitOffset",
    "subVersion",
    "offset",
    "originMsgId",
    "msgId",
    "transactionId",
    "commitLogOffset",
    "tranStateTableOffset",
    "clientID",
    "clientId",
}
STREAM = "ReqT"  # Apache's mark of a lite pull client, which is recorded too
SEND = int(RequestCode.SEND_MESSAGE_V2)
BATCH = int(RequestCode.SEND_BATCH_MESSAGE)


def fields_of(command: Command) -> dict[str, Any]:
    """Return the header fields, with what is volatile replaced; properties as a dict."""
    fields: dict[str, Any] = {name: ANY if name in VOLATILE else text for name, text in command.fields().items()}
    if command.code in (SEND, BATCH):
        properties = parse_properties(str(fields["i"]))
        fields["i"] = {name: ANY if name == "UNIQ_KEY" else text for name, text in properties.items()}
    return fields


def body_of(command: Command) -> Any:
    return _settled(json.loads(command.body))


def _settled(value: Any) -> Any:
    """*value* with what is volatile replaced, and sets in one order."""
    if isinstance(value, dict):
        return {name: ANY if name in VOLATILE else _settled(each) for name, each in value.items()}
    if isinstance(value, list):
        return sorted(map(_settled, value), key=lambda each: json.dumps(each, sort_keys=True))
    return value


APACHE = [
    decode_command(frame.frame[4:])
    for frame in golden_frames("frames-json.jsonl")
    if frame.server == "broker" and frame.sent_by == "client" and not frame.response
]


def apache(code: int) -> list[Command]:
    """Return what Apache's producers and push consumers sent; not its tools, which sign, nor its lite pull consumer."""
    return [
        command
        for command in APACHE
        if command.code == code and STREAM not in command.fields() and "Signature" not in command.fields()
    ]


def distinct(values: Iterable[Any]) -> list[Any]:
    return sorted({json.dumps(value, sort_keys=True) for value in values})


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    """Return what our client sent, when it did the same."""
    return asyncio.run(_the_story(tmp_path_factory.mktemp("golden")))


async def _the_story(home: Path) -> Recorder:
    quick: dict[str, Any] = {"transaction_timeout_ms": 200, "transaction_check_interval_ms": 100}
    async with running_cluster(home, **quick) as cluster, recording(cluster.broker.address) as recorder:
        await cluster.create_topic("Golden", queues=4)
        await cluster.create_topic("GoldenTx", queues=4)
        config = cluster.config(
            address_map={cluster.broker.address: recorder.address}, persist_offsets_s=0.2, client_id="192.0.2.2@second"
        )
        async with Producer("pg_golden", config=config) as producer:
            for number in range(6):
                properties = {"a": str(number), "city": "杭州"}
                body = f"body-{number}".encode()
                message = Message("Golden", body, tags="TagA", keys=[f"key{number}"], properties=properties)
                await producer.send(message)
            await producer.send_batch([Message("Golden", b"in a batch", tags="TagB") for _ in range(3)])
        await _transactions(cluster.config(address_map={cluster.broker.address: recorder.address}), recorder)
        await _consumers(
            cluster.config(address_map={cluster.broker.address: recorder.address}, persist_offsets_s=0.2), recorder
        )
        return recorder


async def _transactions(config: Any, recorder: Recorder) -> None:
    async def check(message: StoredMessage) -> TransactionState:
        return TransactionState.COMMIT

    async with TransactionProducer("pg_tx", config=config, check=check) as producer:
        for state in (TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN):

            def execute(message: Message, result: SendResult, state: TransactionState = state) -> TransactionState:
                return state

            await producer.send_in_transaction(Message("GoldenTx", b"tx", tags="TagT"), execute)
        await eventually(lambda: len(recorder.of(RequestCode.END_TRANSACTION)) >= 4, "a question about the unknown one")


async def _consumers(config: Any, recorder: Recorder) -> None:
    concurrent = PushConsumer("cg_golden", config=config, consume_from="first", max_reconsume_times=1)
    concurrent.subscribe("Golden")
    got: dict[str, int] = {"cg_golden": 0, "cg_order": 0, "cg_sql": 0}

    @concurrent.listener
    async def fail_once(messages: list[StoredMessage]) -> None:
        got["cg_golden"] += 1
        if messages[0].tags == "TagB":
            raise ConsumeLater(delay_level=1)

    ordered = PushConsumer("cg_order", config=config, consume_from="first")
    ordered.subscribe("Golden", "TagO || TagA")

    @ordered.listener(ordered=True)
    async def keep_order(messages: list[StoredMessage]) -> None:
        got["cg_order"] += 1

    filtered = PushConsumer("cg_sql", config=config, consume_from="first")
    filtered.subscribe("Golden", sql("a between 1 and 3 AND TAGS is not null"))

    @filtered.listener
    async def keep(messages: list[StoredMessage]) -> None:
        got["cg_sql"] += 1

    async with concurrent, ordered, filtered:
        await eventually(lambda: got["cg_golden"] >= 9 and got["cg_order"] >= 6 and got["cg_sql"] >= 3, str(got))
        await eventually(lambda: len(recorder.of(RequestCode.CONSUMER_SEND_MSG_BACK)) >= 3, "three sent back")
        groups = {"cg_golden", "cg_order", "cg_sql"}
        saved = recorder.of
        await eventually(
            lambda: {each.fields()["consumerGroup"] for each in saved(RequestCode.UPDATE_CONSUMER_OFFSET)} >= groups,
            "offsets of all groups",
        )


def test_a_send_carries_the_same_fields_and_properties(ours: Recorder) -> None:
    plain = [command for command in ours.of(SEND) if command.fields()["a"] == "pg_golden"]
    assert distinct(map(fields_of, plain)) == distinct(map(fields_of, apache(SEND)))
    assert {command.flag for command in plain} == {command.flag for command in apache(SEND)}


def test_a_batch_carries_the_same_fields(ours: Recorder) -> None:
    assert distinct(map(fields_of, ours.of(BATCH))) == distinct(map(fields_of, apache(BATCH)))


@pytest.mark.parametrize("from_check", ["false", "true"])
def test_the_end_of_a_transaction_carries_the_same_fields(ours: Recorder, from_check: str) -> None:
    """And 5.x's too: its brokers look at the topic."""

    def ends(commands: Iterable[Command], *, without: set[str]) -> list[Any]:
        return distinct(
            {name: value for name, value in fields_of(command).items() if name not in without}
            for command in commands
            if command.fields()["fromTransactionCheck"] == from_check
        )

    code = RequestCode.END_TRANSACTION
    newer = {"topic"} if from_check == "true" else {"topic", "transactionId"}
    assert ends(ours.of(code), without=newer) == ends(apache(code), without=set())
    assert all(newer <= set(command.fields()) for command in ours.of(code))
    assert {command.flag for command in ours.of(code)} == {command.flag for command in apache(code)}


def about(group: str, commands: Iterable[Command]) -> list[Command]:
    return [command for command in commands if command.fields().get("consumerGroup") == group]


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.QUERY_CONSUMER_OFFSET,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        RequestCode.UPDATE_CONSUMER_OFFSET,
        RequestCode.PULL_MESSAGE,
    ],
)
def test_a_consumer_asks_and_tells_with_the_same_fields(ours: Recorder, code: int) -> None:
    recorded = about("cg_golden", apache(code))
    found = about("cg_golden", ours.of(code))
    assert recorded
    first_pulls = [command for command in found if command.fields().get("sysFlag") in (None, "2")]
    ours_alone = {"increaseOnly"} if code == RequestCode.UPDATE_CONSUMER_OFFSET else set()
    assert all(ours_alone <= command.fields().keys() for command in found)
    sent = [{name: fields[name] for name in fields.keys() - ours_alone} for fields in map(fields_of, first_pulls)]
    assert distinct(sent) == distinct(map(fields_of, recorded))
    # At the end of a consumer ours also waits for an answer: whoever has the queue next reads what was saved.
    assert {command.flag for command in recorded} <= {command.flag for command in found}


def test_a_pull_that_tells_how_far_the_group_has_come_has_no_other_fields(ours: Recorder) -> None:
    # A pull with a commit offset was not among those recorded: Apache's sends it with the same fields, and flag 3.
    names = {frozenset(command.fields()) for command in apache(RequestCode.PULL_MESSAGE)}
    committing = [each for each in ours.of(RequestCode.PULL_MESSAGE) if each.fields()["sysFlag"] == "3"]
    assert {frozenset(command.fields()) for command in committing} <= names


def test_what_was_not_consumed_goes_back_with_the_same_fields(ours: Recorder) -> None:
    code = RequestCode.CONSUMER_SEND_MSG_BACK
    assert distinct(map(fields_of, ours.of(code))) == distinct(map(fields_of, apache(code)))


@pytest.mark.parametrize("code", [RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ])
def test_queues_are_locked_and_unlocked_with_the_same_body(ours: Recorder, code: int) -> None:
    def shapes(commands: Iterable[Command]) -> list[Any]:
        bodies = list(map(body_of, commands))
        return distinct({**body, "mqSet": queue} for body in bodies for queue in body["mqSet"] if _is_golden(queue))

    def _is_golden(queue: Any) -> bool:
        return bool(queue["topic"] == "Golden")

    assert shapes(ours.of(code)) == shapes(apache(code))
    assert {command.flag for command in ours.of(code)} == {command.flag for command in apache(code)}


def test_heartbeats_tell_the_same_of_consumers(ours: Recorder) -> None:
    def told(commands: Iterable[Command]) -> dict[str, Any]:
        return {
            consumer["groupName"]: consumer
            for command in commands
            for consumer in body_of(command)["consumerDataSet"]
            if consumer["groupName"] in ("cg_golden", "cg_order")
        }

    assert told(ours.of(RequestCode.HEART_BEAT)) == told(apache(RequestCode.HEART_BEAT))


def test_heartbeats_tell_the_same_of_producers(ours: Recorder) -> None:
    """But for CLIENT_INNER_PRODUCER, which each of Java's clients has; ours makes no producer that it does not need."""

    def told(commands: Iterable[Command]) -> list[Any]:
        producers = [body_of(command)["producerDataSet"] for command in commands]
        return distinct(each for one in producers for each in one if each["groupName"] == "pg_golden")

    recorded = apache(RequestCode.HEART_BEAT)
    assert told(ours.of(RequestCode.HEART_BEAT)) == told(recorded)
    assert {frozenset(body_of(command)) for command in ours.of(RequestCode.HEART_BEAT)} == {
        frozenset(body_of(command)) for command in recorded
    }


def test_a_subscription_by_sql_is_checked_with_the_same_body(ours: Recorder) -> None:
    code = RequestCode.CHECK_CLIENT_CONFIG
    assert distinct(map(body_of, ours.of(code))) == distinct(map(body_of, apache(code)))


def test_who_leaves_says_so_with_the_same_fields(ours: Recorder) -> None:
    code = RequestCode.UNREGISTER_CLIENT

    def leaving(commands: Iterable[Command]) -> set[frozenset[str]]:
        return {frozenset(command.fields()) for command in commands}

    assert leaving(ours.of(code)) == leaving(apache(code))
