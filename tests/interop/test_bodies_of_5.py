"""The bodies that 5.x extends have every field of Apache's 5.3.3 for its clients, and none of them for those of 4.9.

The request's version decides. A batch with a delayed message is compared too: Apache ignores the delay, we refuse it.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import pytest

from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import VERSION
from hanabi.wire.header import header_fields
from hanabi.wire.headers.send import SendMessageV2Header
from hanabi.wire.message.batch import BatchMessage, encode_batch
from tests.interop.apache import ApacheBroker
from tests.interop.jars import ALL_5
from tests.interop.ours import OurBroker
from tests.interop.probe import Conversation

V5_3_2: Final = 474  # rocketmq-rust's
TOPIC, GROUP, FRESH = "Bodies", "g", "fresh"

QUESTIONS: Final[dict[str, tuple[int, Mapping[str, str] | None]]] = {
    "topics": (RequestCode.GET_ALL_TOPIC_CONFIG, None),
    "offsets": (RequestCode.GET_ALL_CONSUMER_OFFSET, None),
    "delays": (RequestCode.GET_ALL_DELAY_OFFSET, None),
    "groups": (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, None),
    "times": (RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": TOPIC, "group": GROUP}),
    "progress": (RequestCode.GET_CONSUME_STATS, {"consumerGroup": GROUP, "topic": TOPIC}),
    "no progress": (RequestCode.GET_CONSUME_STATS, {"consumerGroup": FRESH, "topic": TOPIC}),
    "all progress": (RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}),
    "stats": (RequestCode.GET_TOPIC_STATS_INFO, {"topic": TOPIC}),
    "topic": (RequestCode.GET_TOPIC_CONFIG, {"topic": TOPIC}),
    "group": (RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": GROUP}),
}
ADDED_BY_5: Final = (
    b'"stateVersion"',
    b'"mappingDataVersion"',
    b'"topicQueueMapping',
    b'"forbiddenTable"',
    b'"groupTopicMap"',
    b'TimeStampStr"',
    b'"totalInflightDiff"',
    b'"pullOffset":0',
)
ANSWERED_ONLY_BY_5: Final = ("topic", "group")

Answers = dict[str, bytes]


def send(conversation: Conversation, code: int, body: bytes, *, outer: str = "") -> int:
    header = SendMessageV2Header(
        producer_group="p",
        topic=TOPIC,
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        flag=0,
        properties=outer,
        reconsume_times=0,
        batch=code == RequestCode.SEND_BATCH_MESSAGE,
    )
    return conversation.ask(code, header_fields(header), body, version=V5_3_2).code


def prepare(conversation: Conversation) -> None:
    """Make a topic with two messages, a group that has read one of them, and a group that has read none."""
    queues = {"readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
    kind = {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    conversation.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {"topic": TOPIC, **queues, **kind})
    for group, offset in ((GROUP, 1), (FRESH, 0)):
        body = b'{"groupName":"%b"}' % group.encode()
        conversation.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)
        fields = {"consumerGroup": group, "topic": TOPIC, "queueId": "0", "commitOffset": str(offset)}
        conversation.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
    for _ in range(2):
        assert send(conversation, RequestCode.SEND_MESSAGE_V2, b"body", outer="UNIQ_KEY\x01A0") == ResponseCode.SUCCESS


def answers(conversation: Conversation, version: int) -> Answers:
    return {name: conversation.ask(code, fields, version=version).body for name, (code, fields) in QUESTIONS.items()}


def delayed_in_batch(conversation: Conversation) -> list[int]:
    """Return the answers to a batch whose message has a delay, and to one whose header has it."""
    inner = encode_batch([BatchMessage(0, b"later", b"UNIQ_KEY\x01A1\x02DELAY\x015\x02")])
    plain = encode_batch([BatchMessage(0, b"later", b"UNIQ_KEY\x01A2\x02")])
    code = RequestCode.SEND_BATCH_MESSAGE
    return [send(conversation, code, inner), send(conversation, code, plain, outer="DELAY\x015")]


def told_by(broker: ApacheBroker | OurBroker) -> tuple[Answers, Answers, list[int]]:
    """Return the answers to a client of 5.x, those to one of 4.9, and those to delayed messages in batches."""
    try:
        broker.wait_ready()
        with Conversation(broker.address) as conversation:
            prepare(conversation)
            return answers(conversation, V5_3_2), answers(conversation, VERSION), delayed_in_batch(conversation)
    finally:
        broker.process.kill()


@pytest.fixture(scope="module")
def theirs(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Answers, Answers, list[int]]:
    patient = {"waitTimeMillsInSendQueue": 60_000}  # it refuses what waited for longer, on a busy machine
    home = tmp_path_factory.mktemp("apache")
    return told_by(ApacheBroker(home, ALL_5, name="broker-a", cluster="DefaultCluster", namesrv=None, settings=patient))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> tuple[Answers, Answers, list[int]]:
    return told_by(OurBroker(tmp_path_factory.mktemp("ours"), name="broker-a", namesrv=None))


def comparable(body: bytes) -> bytes:
    """Return *body* without moments, addresses, and what else is a broker's own."""
    as_json = re.sub(rb'\{("brokerName":"[^"]*","queueId":\d+,"topic":"[^"]*")\}:', rb'"queue":', body)
    as_json = re.sub(rb"([{,])(\d+):", rb'\1"\2":', as_json)
    as_json = re.sub(rb"17\d{11}|18\d{11}", b"0", as_json)
    as_json = re.sub(rb"\d{4}-\d\d-\d\d#\d\d:\d\d:\d\d:\d{3}", b"a moment", as_json)
    as_json = re.sub(rb'"delayTime":\d+', b'"delayTime":0', as_json)
    as_json = re.sub(rb'"brokerAddr":"[^"]*"', b'"brokerAddr":""', as_json)
    as_json = re.sub(rb'"counter":\d+', b'"counter":0', as_json)
    plain = msgspec.json.decode(as_json)
    for table, name in (("topicConfigTable", TOPIC), ("subscriptionGroupTable", GROUP)):
        if table in plain:  # of the system's own, each broker has other ones
            plain[table] = plain[table][name]
    for table in {"offsetTable", "groupTopicMap"} & plain.keys():
        plain[table] = dict(sorted(plain[table].items()))
    if "consumeStatsList" in plain:
        plain["consumeStatsList"] = [entry for entry in plain["consumeStatsList"] if GROUP in entry or FRESH in entry]
        plain["consumeStatsList"].sort(key=str)
        plain = without_apaches_mistake(plain)
    return msgspec.json.encode(plain)  # the order of names counts too


def without_apaches_mistake(all_progress: Any) -> Any:
    """Correct the answer about all groups, in which 5.3.3 forgets how far they have pulled: it says 0, and that less
    than nothing is in flight. We say what the answer about one group says, and that nothing is in flight."""
    all_progress["totalInflightDiff"] *= 0
    for entry in all_progress["consumeStatsList"]:
        for stats in (each for of_group in entry.values() for each in of_group):
            stats["offsetTable"]["queue"]["pullOffset"] *= 0
    return all_progress


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_client_of_5_is_told_what_apaches_broker_of_5_tells(
    theirs: tuple[Answers, Answers, list[int]], ours: tuple[Answers, Answers, list[int]], question: str
) -> None:
    assert comparable(ours[0][question]) == comparable(theirs[0][question])


@pytest.mark.parametrize("question", [name for name in QUESTIONS if name not in ANSWERED_ONLY_BY_5])
def test_a_client_of_4_is_told_nothing_that_5_added(ours: tuple[Answers, Answers, list[int]], question: str) -> None:
    assert [field for field in ADDED_BY_5 if field in ours[1][question]] == []


def test_a_delay_inside_a_batch_is_refused_by_us_and_ignored_by_apache(
    theirs: tuple[Answers, Answers, list[int]], ours: tuple[Answers, Answers, list[int]]
) -> None:
    illegal, stored = ResponseCode.MESSAGE_ILLEGAL, ResponseCode.SUCCESS
    assert theirs[2] == [stored, illegal]  # delivered at once
    assert ours[2] == [illegal, illegal]
