"""Each request code that a server answers has a demand, and each demand finds the names in real headers and bodies."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from hanabi.access.demands import (
    BROKER_DEMANDS,
    NAME_SERVER_READS,
    broker_demand,
    container_demands_nothing,
    controller_demands_nothing,
    name_server_demands_nothing,
)
from hanabi.access.names import Surroundings
from hanabi.access.needs import Action, Kind, Named, Need, Rights, needs_of
from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.container.handlers import container_handlers
from hanabi.controller.handlers import controller_handlers
from hanabi.message import MessageQueue
from hanabi.namesrv.config import NamesrvConfig
from hanabi.namesrv.name_server import NameServer
from hanabi.remoting.connection.dispatch import Handler
from hanabi.testing.cluster import small_store
from hanabi.wire.bodies.heartbeat import (
    CheckClientRequest,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    ProducerData,
    SubscriptionData,
)
from hanabi.wire.bodies.locks import LockRequest
from hanabi.wire.bodies.pop import BatchAck, BatchAckRequest, MessageRequestMode, QueryAssignmentRequest
from hanabi.wire.bodies.topics import TopicConfig, TopicConfigList
from hanabi.wire.codes import RequestCode as Code
from hanabi.wire.fastjson import encode_body
from hanabi.wire.header import NoHeader
from hanabi.wire.message.message_id import encode_offset_id
from hanabi.wire.registry.headers import REQUEST_HEADERS

AROUND = Surroundings(
    cluster="DefaultCluster",
    reply_topic="DefaultCluster_REPLY_TOPIC",
    topic_at={100: "Stored", 200: "%RETRY%others"}.get,
)
# Client codes, and the names in them. All other codes of the table are tested by the loop below.
VALUES: dict[str, Any] = {
    "topic": "T",
    "consumerGroup": "G",
    "group": "G",
    "groupName": "G",
    "producerGroup": "P",
    "srcGroup": "G",
    "destGroup": "G2",
    "compareGroup": "G",
    "offset": 100,
    "commitLogOffset": 100,
    "msgId": encode_offset_id(bytes(8), 100),
    "a": "P",
    "b": "T",
}


class Collected:
    """The request codes of a server."""

    def __init__(self) -> None:
        self.codes: set[int] = set()

    def around(self, code: int, handler: Handler) -> Handler:
        self.codes.add(code)
        return handler


async def test_each_code_of_the_broker_has_a_demand(tmp_path: Path) -> None:
    collected = Collected()
    async with Broker(BrokerConfig(), small_store(tmp_path), around=collected.around) as broker:
        await broker.start("127.0.0.1", 0)
    assert len(collected.codes) > 50
    assert {Code(code).name for code in collected.codes if code not in BROKER_DEMANDS} == set()


async def test_each_code_of_the_name_server_is_a_read_or_needs_an_identity(tmp_path: Path) -> None:
    collected = Collected()
    async with NameServer(NamesrvConfig(), tmp_path, around=collected.around) as server:
        await server.start("127.0.0.1", 0)
    assert collected.codes >= NAME_SERVER_READS
    assert {Code(code) for code in collected.codes if not name_server_demands_nothing(code)} == {
        Code.REGISTER_BROKER,
        Code.UNREGISTER_BROKER,
        Code.BROKER_HEARTBEAT,
        Code.WIPE_WRITE_PERM_OF_BROKER,
        Code.ADD_WRITE_PERM_OF_BROKER,
        Code.REGISTER_TOPIC_IN_NAMESRV,
        Code.DELETE_TOPIC_IN_NAMESRV,
        Code.PUT_KV_CONFIG,
        Code.DELETE_KV_CONFIG,
        Code.UPDATE_NAMESRV_CONFIG,
    }


def test_each_code_of_the_controller_is_a_read_or_needs_an_identity() -> None:
    unused: Any = None
    codes = set(controller_handlers(unused, unused, unused, unused))
    assert {Code(code) for code in codes if not controller_demands_nothing(code)} == {
        Code.CONTROLLER_ALTER_SYNC_STATE_SET,
        Code.CONTROLLER_ELECT_MASTER,
        Code.CONTROLLER_REGISTER_BROKER,
        Code.CLEAN_BROKER_DATA,
        Code.CONTROLLER_GET_NEXT_BROKER_ID,
        Code.CONTROLLER_APPLY_BROKER_ID,
        Code.UPDATE_CONTROLLER_CONFIG,
        Code.BROKER_HEARTBEAT,
    }


def test_each_code_of_the_container_but_its_settings_needs_an_identity() -> None:
    unused: Any = None
    codes = set(container_handlers(unused, unused))
    assert {Code(code) for code in codes if not container_demands_nothing(code)} == {
        Code.ADD_BROKER,
        Code.REMOVE_BROKER,
        Code.UPDATE_BROKER_CONFIG,
    }


@pytest.mark.parametrize("code", [1, 54, 301, 200_056, 99_999])
def test_an_unknown_code_needs_an_administrator(code: int) -> None:
    demand = broker_demand(code)
    assert demand.plain == demand.policy == Rights(cluster=Action.UPDATE)


def sample_header(code: int) -> Any:
    """Return a header of *code* with the names of `VALUES`, and 1 for every other number."""
    kind = REQUEST_HEADERS.get(code, NoHeader)
    fields = {}
    for item in msgspec.structs.fields(kind):
        known = VALUES.get(item.encode_name)
        if known is not None:
            fields[item.encode_name] = known
        elif item.required:
            fields[item.encode_name] = "x" if item.type is str else 1
    return msgspec.convert(fields, kind, strict=False)


SUBSCRIPTION = SubscriptionData(topic="T", sub_string="*")
BODIES: dict[int, bytes] = {
    Code.HEART_BEAT: encode_body(
        HeartbeatData(
            client_id="c",
            producer_data_set=[ProducerData(group_name="P")],
            consumer_data_set=[
                ConsumerData(
                    group_name="G",
                    consume_type=ConsumeType.CONSUME_PASSIVELY,
                    message_model=MessageModel.CLUSTERING,
                    subscription_data_set=[SUBSCRIPTION, SubscriptionData(topic="%RETRY%G", sub_string="*")],
                ),
            ],
        )
    ),
    Code.LOCK_BATCH_MQ: encode_body(
        LockRequest(client_id="c", consumer_group="G", mq_set=[MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)])
    ),
    Code.CHECK_CLIENT_CONFIG: encode_body(CheckClientRequest(client_id="c", group="G", subscription_data=SUBSCRIPTION)),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: encode_body(
        TopicConfigList(topic_config_list=[TopicConfig(topic_name="T"), TopicConfig(topic_name="T2")])
    ),
}
BODIES[Code.BATCH_ACK_MESSAGE] = encode_body(BatchAckRequest(acks=[BatchAck(consumer_group="G", topic="T")]))
BODIES[Code.QUERY_ASSIGNMENT] = encode_body(QueryAssignmentRequest(client_id="c", consumer_group="G", topic="T"))
BODIES[Code.SET_MESSAGE_REQUEST_MODE] = encode_body(MessageRequestMode(consumer_group="G", topic="T"))
BODIES[Code.UNLOCK_BATCH_MQ] = BODIES[Code.LOCK_BATCH_MQ]


def plain_needs(code: int, header: Any = None, body: bytes = b"") -> set[Need]:
    demand = broker_demand(code)
    found = demand.named(header or sample_header(code), body or BODIES.get(code, b""), AROUND)
    return set(needs_of(demand.plain, found, AROUND.cluster))


@pytest.mark.parametrize("code", sorted(BROKER_DEMANDS), ids=lambda code: Code(code).name)
def test_a_demand_finds_its_names_in_the_header_or_the_body(code: int) -> None:
    # A demand on topics or groups that finds no name would let each account pass.
    demand = broker_demand(code)
    named = demand.named(sample_header(code), BODIES.get(code, b""), AROUND)
    for rights in (demand.plain, demand.policy):
        assert rights != Rights()
        assert not rights.topic or named.topics or rights.group or rights.cluster
        assert not rights.group or named.groups


TOPIC_PUB, TOPIC_SUB = Need(Kind.TOPIC, "T", Action.PUB), Need(Kind.TOPIC, "T", Action.SUB)
STORED_SUB, GROUP_SUB = Need(Kind.TOPIC, "Stored", Action.SUB), Need(Kind.GROUP, "G", Action.SUB)
TOPIC_ANY = Need(Kind.TOPIC, "T", Action.PUB | Action.SUB)


@pytest.mark.parametrize(
    ("code", "needs"),
    [
        (Code.SEND_MESSAGE, {TOPIC_PUB}),
        (Code.SEND_MESSAGE_V2, {TOPIC_PUB}),
        (Code.SEND_BATCH_MESSAGE, {TOPIC_PUB}),
        (Code.SEND_REPLY_MESSAGE_V2, {TOPIC_PUB}),
        (Code.CONSUMER_SEND_MSG_BACK, {GROUP_SUB, STORED_SUB}),
        (Code.END_TRANSACTION, {Need(Kind.TOPIC, "Stored", Action.PUB)}),
        (Code.RECALL_MESSAGE, {TOPIC_PUB}),
        (Code.PULL_MESSAGE, {TOPIC_SUB, GROUP_SUB}),
        (Code.LITE_PULL_MESSAGE, {TOPIC_SUB, GROUP_SUB}),
        (Code.POP_MESSAGE, {TOPIC_SUB, GROUP_SUB}),
        (Code.ACK_MESSAGE, {TOPIC_SUB, GROUP_SUB}),
        (Code.BATCH_ACK_MESSAGE, {TOPIC_SUB, GROUP_SUB}),
        (Code.QUERY_ASSIGNMENT, {TOPIC_SUB, GROUP_SUB}),
        (Code.QUERY_MESSAGE, {TOPIC_SUB}),
        (Code.VIEW_MESSAGE_BY_ID, {STORED_SUB}),
        (Code.QUERY_CONSUME_QUEUE, {TOPIC_SUB}),
        (Code.HEART_BEAT, {TOPIC_SUB, GROUP_SUB}),
        (Code.UNREGISTER_CLIENT, {GROUP_SUB}),
        (Code.GET_CONSUMER_LIST_BY_GROUP, {GROUP_SUB}),
        (Code.LOCK_BATCH_MQ, {TOPIC_SUB, GROUP_SUB}),
        (Code.UNLOCK_BATCH_MQ, {TOPIC_SUB, GROUP_SUB}),
        (Code.CHECK_CLIENT_CONFIG, {TOPIC_SUB, GROUP_SUB}),
        (Code.QUERY_CONSUMER_OFFSET, {TOPIC_SUB, GROUP_SUB}),
        (Code.UPDATE_CONSUMER_OFFSET, {TOPIC_SUB, GROUP_SUB}),
        (Code.GET_MAX_OFFSET, {TOPIC_ANY}),
        (Code.GET_TOPIC_STATS_INFO, {TOPIC_ANY}),
        (Code.GET_CONSUME_STATS, {GROUP_SUB}),
        (Code.QUERY_CONSUME_TIME_SPAN, {GROUP_SUB}),
        (Code.INVOKE_BROKER_TO_RESET_OFFSET, {TOPIC_SUB, GROUP_SUB}),
        (Code.CONSUME_MESSAGE_DIRECTLY, {TOPIC_SUB, GROUP_SUB, STORED_SUB}),
        (Code.UPDATE_AND_CREATE_TOPIC, {Need(Kind.CLUSTER, "DefaultCluster", Action.UPDATE)}),
        (Code.UPDATE_AND_CREATE_ACL_CONFIG, {Need(Kind.CLUSTER, "DefaultCluster", Action.UPDATE)}),
    ],
)
def test_needs_are_those_of_the_contract(code: int, needs: set[Need]) -> None:
    assert plain_needs(code) == needs


def test_a_send_to_a_retry_topic_needs_the_group_of_the_topic_and_not_of_the_header() -> None:
    header = msgspec.structs.replace(sample_header(Code.SEND_MESSAGE_V2), topic="%RETRY%victim", producer_group="mine")
    assert plain_needs(Code.SEND_MESSAGE_V2, header) == {Need(Kind.GROUP, "victim", Action.SUB)}


def test_a_message_of_a_retry_topic_belongs_to_its_group() -> None:
    header = msgspec.structs.replace(sample_header(Code.VIEW_MESSAGE_BY_ID), offset=200)
    assert plain_needs(Code.VIEW_MESSAGE_BY_ID, header) == {Need(Kind.GROUP, "others", Action.SUB)}


@pytest.mark.parametrize("topic", ["%RETRY%G_T", "%RETRY%G+T", "T"])
def test_an_acknowledgement_of_a_retry_needs_the_topic_that_is_popped(topic: str) -> None:
    header = msgspec.structs.replace(sample_header(Code.ACK_MESSAGE), topic=topic)
    assert plain_needs(Code.ACK_MESSAGE, header) == {TOPIC_SUB, GROUP_SUB}


def test_a_dead_letter_topic_is_an_ordinary_topic() -> None:
    header = msgspec.structs.replace(sample_header(Code.PULL_MESSAGE), topic="%DLQ%G")
    assert plain_needs(Code.PULL_MESSAGE, header) == {Need(Kind.TOPIC, "%DLQ%G", Action.SUB), GROUP_SUB}


def test_names_are_taken_as_sent_with_their_namespace() -> None:
    header = msgspec.structs.replace(sample_header(Code.PULL_MESSAGE), topic="%RETRY%NS%G", consumer_group="NS%G")
    assert plain_needs(Code.PULL_MESSAGE, header) == {Need(Kind.GROUP, "NS%G", Action.SUB)}


def test_an_answer_to_the_reply_topic_of_the_cluster_needs_no_right() -> None:
    header = sample_header(Code.SEND_REPLY_MESSAGE_V2)
    assert plain_needs(Code.SEND_REPLY_MESSAGE_V2, msgspec.structs.replace(header, topic=AROUND.reply_topic)) == set()
    other = msgspec.structs.replace(header, topic="Other_REPLY_TOPIC")
    assert plain_needs(Code.SEND_REPLY_MESSAGE_V2, other) == {Need(Kind.TOPIC, "Other_REPLY_TOPIC", Action.PUB)}


def test_a_message_id_that_is_none_names_no_message() -> None:
    header = msgspec.structs.replace(sample_header(Code.CONSUME_MESSAGE_DIRECTLY), msg_id="no id")
    assert plain_needs(Code.CONSUME_MESSAGE_DIRECTLY, header) == {TOPIC_SUB, GROUP_SUB}


def test_actions_of_policies_become_the_groups_at_a_retry_topic() -> None:
    rights = Rights(topic=Action.PUB | Action.SUB | Action.GET)
    assert needs_of(rights, Named(("%RETRY%G",)), "c") == (Need(Kind.GROUP, "G", Action.SUB | Action.GET),)
