"""The worst legal input of every request code that a broker answers.

A request that is one short step is pipelined, as a client may: so many short steps must not add up to one long one.
"""

import struct
from typing import Any, Final, TypeVar

from hanabi.broker.clients.limits import EXPRESSION_CHARACTERS_MAX, GROUPS_PER_CONNECTION_MAX
from hanabi.broker.handlers.admin.support.limits import LIST_BYTES_MAX, ONE_BYTES_MAX, QUEUES_MAX
from hanabi.broker.handlers.clients import QUEUES_PER_LOCK_MAX
from hanabi.clock import wall_ms
from hanabi.message import MessageQueue
from hanabi.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupList
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
from hanabi.wire.codes import ResponseCode
from hanabi.wire.fastjson import encode_body
from hanabi.wire.headers.admin import GetBrokerConsumeStatsHeader, ViewBrokerStatsDataHeader
from hanabi.wire.headers.client import (
    ConsumeMessageDirectlyHeader,
    GetConsumerConnectionListHeader,
    GetConsumerListByGroupHeader,
    GetConsumerRunningInfoHeader,
    GetProducerConnectionListHeader,
    UnregisterClientHeader,
)
from hanabi.wire.headers.group import (
    DeleteSubscriptionGroupHeader,
    GetConsumeStatsHeader,
    GetSubscriptionGroupConfigHeader,
    QueryConsumeTimeSpanHeader,
    QuerySubscriptionByConsumerHeader,
    QueryTopicsByConsumerHeader,
)
from hanabi.wire.headers.offset import (
    CloneGroupOffsetHeader,
    GetConsumerStatusHeader,
    GetEarliestMsgStoretimeHeader,
    GetMaxOffsetHeader,
    GetMinOffsetHeader,
    QueryConsumerOffsetHeader,
    QueryCorrectionOffsetHeader,
    ResetOffsetHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from hanabi.wire.headers.pull import PullMessageHeader
from hanabi.wire.headers.query import QueryConsumeQueueHeader, QueryMessageHeader, ViewMessageHeader
from hanabi.wire.headers.send import (
    ConsumerSendMsgBackHeader,
    RecallMessageHeader,
    SendMessageHeader,
    SendMessageV2Header,
)
from hanabi.wire.headers.topic import (
    CreateTopicHeader,
    DeleteTopicHeader,
    GetTopicConfigHeader,
    GetTopicStatsInfoHeader,
    QueryTopicConsumeByWhoHeader,
)
from hanabi.wire.headers.transaction import EndTransactionHeader, ResumeCheckHalfMessageHeader
from hanabi.wire.headers.v5.pop import (
    AckMessageHeader,
    ChangeInvisibleTimeHeader,
    NotificationHeader,
    PeekMessageHeader,
    PollingInfoHeader,
    PopMessageHeader,
)
from hanabi.wire.headers.v5.replication import ExchangeHAInfoHeader, ResetMasterFlushOffsetHeader
from hanabi.wire.message import sysflag
from hanabi.wire.recall_handle import RecallHandle
from tests.broker.talk import connected
from tests.watchdog.large_home import BUSY, COLLIDING_KEY, EVERYWHERE, STORED_MS, WIDE, group_name, topic_name
from tests.watchdog.worst_input import Request, Requests, World, Worst, times

A = TypeVar("A", AckMessageHeader, ChangeInvisibleTimeHeader)

INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1
MANY: Final = 300  # pipelined short steps
SOME: Final = 20  # pipelined steps of a millisecond or more
MEMBER: Final = "member@watchdog"
MEMBER_GROUP: Final = group_name(0)
PRODUCER_GROUP: Final = "producers"
LONGEST_TOPIC: Final = "T" * 120  # and a number: 127 characters are the limit
LONGEST_GROUP: Final = "G" * 248  # and a number: 255 are the limit

LARGEST_BODY: Final = bytes(4 << 20)
MOST_KEYS: Final = "KEYS\x01" + " ".join(["k"] * 16_000) + "\x02"  # properties have 32,767 bytes at most
SMALLEST_MESSAGE: Final = struct.pack(">iiiiicH", 23, 0, 0, 0, 1, b"x", 0)
BATCH: Final = SMALLEST_MESSAGE * ((4 << 20) // len(SMALLEST_MESSAGE))
DEAREST_SQL: Final = " OR ".join(["a > 1 AND b LIKE '%x%'"] * (EXPRESSION_CHARACTERS_MAX // 27))


def _send(*, flag: int = 0, topic: str = BUSY, batch: bool = False, properties: str = MOST_KEYS) -> SendMessageHeader:
    return SendMessageHeader(
        producer_group=PRODUCER_GROUP,
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=1,
        sys_flag=flag,
        born_timestamp=1,
        flag=0,
        properties=properties,
        batch=batch,
    )


def _send_v2(*, flag: int = 0, batch: bool = False, properties: str = MOST_KEYS) -> SendMessageV2Header:
    return SendMessageV2Header(
        producer_group=PRODUCER_GROUP,
        topic=BUSY,
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=1,
        sys_flag=flag,
        born_timestamp=1,
        flag=0,
        properties=properties,
        batch=batch,
    )


def _pop(**fields: Any) -> PopMessageHeader:
    return PopMessageHeader(
        consumer_group=MEMBER_GROUP,
        topic=BUSY,
        queue_id=-1,
        max_msg_nums=32,
        invisible_time=1_000,
        poll_time=0,
        init_mode=0,
        **fields,
    )


def _ack(kind: type[A], **fields: Any) -> A:
    return kind(
        consumer_group=MEMBER_GROUP,
        topic=BUSY,
        queue_id=0,
        extra_info="0 0 0 0 0 watchdog 0 0",
        offset=0,
        **fields,
    )


def _many_acks() -> bytes:
    ack = BatchAck(offsets=b"\xff" * 180_000, consumer_group=MEMBER_GROUP, topic=BUSY, retry="0")
    return encode_body(BatchAckRequest(acks=[ack]))


def _pull(subscription: str, kind: str) -> PullMessageHeader:
    return PullMessageHeader(
        consumer_group=MEMBER_GROUP,
        topic=BUSY,
        queue_id=0,
        queue_offset=0,
        max_msg_nums=INT_MAX,
        sys_flag=4,
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=0,
        subscription=subscription,
        expression_type=kind,
    )


PULLED: Final = frozenset(
    {ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY}
)  # a scan may stop where it has done enough
POPPED: Final = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.POLLING_TIMEOUT,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.NO_MESSAGE,
        ResponseCode.MESSAGE_ILLEGAL,
    }
)
MAY_BE_TOO_LONG: Final = frozenset({ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR})  # for a frame
REPLY_PROPERTIES: Final = f"REPLY_TO_CLIENT\x01{MEMBER}\x02CORRELATION_ID\x011\x02"


def consumer(group: str, subscriptions: list[SubscriptionData]) -> ConsumerData:
    return ConsumerData(
        group_name=group,
        consume_type=ConsumeType.CONSUME_PASSIVELY,
        message_model=MessageModel.CLUSTERING,
        subscription_data_set=subscriptions,
    )


def heartbeat(client_id: str, consumers: list[ConsumerData], producers: list[str]) -> bytes:
    return encode_body(
        HeartbeatData(
            client_id=client_id,
            consumer_data_set=consumers,
            producer_data_set=[ProducerData(group_name=name) for name in producers],
        )
    )


def _new_groups(world: World) -> list[Request]:
    """Send as many groups as one connection may have, all new; each makes a group and a retry topic."""
    names = [f"{LONGEST_GROUP[:100]}{world.round}x{number}" for number in range(GROUPS_PER_CONNECTION_MAX)]
    return [Request(body=heartbeat("client", [consumer(name, []) for name in names], names))]


def _locks() -> bytes:
    queues = [MessageQueue(LONGEST_TOPIC, "broker-a", number) for number in range(QUEUES_PER_LOCK_MAX)]
    return encode_body(LockRequest(client_id=MEMBER, consumer_group=MEMBER_GROUP, mq_set=queues))


def _sql(expression: str) -> SubscriptionData:
    return SubscriptionData(topic=BUSY, sub_string=expression, expression_type="SQL92")


def _new_topics(world: World) -> list[Request]:
    topics = [
        TopicConfig(topic_name=f"{LONGEST_TOPIC[:100]}{world.round}x{number}", write_queue_nums=QUEUES_MAX)
        for number in range(5_000)
    ]
    body = encode_body(TopicConfigList(topic_config_list=topics))
    assert len(body) < LIST_BYTES_MAX
    return [Request(body=body)]


def _new_group_list(world: World) -> list[Request]:
    groups = [SubscriptionGroupConfig(group_name=f"{LONGEST_GROUP}{world.round}x{n:04d}") for n in range(5_000)]
    body = encode_body(SubscriptionGroupList(group_config_list=groups))
    assert len(body) < LIST_BYTES_MAX
    return [Request(body=body)]


def _group_with_attributes() -> bytes:
    attributes = {f"a{number:05d}": "{" * 15 for number in range(7_000)}
    body = encode_body(SubscriptionGroupConfig(group_name=group_name(1), attributes=attributes))
    assert len(body) < ONE_BYTES_MAX
    return body


async def _store_halves(world: World) -> None:
    async with connected(world.broker) as peer:
        header = _send_v2(flag=sysflag.TRANSACTION_PREPARED, properties="TRAN_MSG\x01true\x02PGROUP\x01p\x02")
        world.halves = [await peer.ask(Code.SEND_MESSAGE_V2, header, LARGEST_BODY) for _ in range(4)]
        assert {half.code for half in world.halves} == {0}


def _ends(world: World) -> list[Request]:
    requests: list[Request] = []
    for half in world.halves:
        message_id = half.fields()["msgId"]
        header = EndTransactionHeader(
            producer_group="p",
            tran_state_table_offset=int(half.fields()["queueOffset"]),
            commit_log_offset=int(message_id[16:], 16),
            commit_or_rollback=sysflag.TRANSACTION_COMMIT,
            msg_id=message_id,
        )
        requests.append(Request(header))
    return requests


async def _wide_again(world: World) -> None:
    """Prepare the widest topic, with queues in use and with offsets of a group in all of them, as another name."""
    async with connected(world.broker) as peer:
        name = f"Wide{world.round}"
        header = CreateTopicHeader(
            topic=name,
            default_topic="TBW102",
            read_queue_nums=QUEUES_MAX,
            write_queue_nums=QUEUES_MAX,
            perm=6,
            topic_filter_type="SINGLE_TAG",
        )
        assert (await peer.ask(Code.UPDATE_AND_CREATE_TOPIC, header)).code == 0
        commits = [
            peer.start(
                Code.UPDATE_CONSUMER_OFFSET,
                UpdateConsumerOffsetHeader(consumer_group=EVERYWHERE, topic=name, queue_id=queue_id, commit_offset=0),
            )
            for queue_id in range(QUEUES_MAX)
        ]
        sends = [
            peer.start(
                Code.SEND_MESSAGE,
                SendMessageHeader(
                    producer_group="p",
                    topic=name,
                    default_topic="TBW102",
                    default_topic_queue_nums=1,
                    queue_id=queue_id,
                    sys_flag=0,
                    born_timestamp=1,
                    flag=0,
                ),
                b"x",
            )
            for queue_id in range(500)
        ]
        for answer in commits + sends:
            assert (await answer).code == 0


async def _group_again(world: World) -> None:
    async with connected(world.broker) as peer:
        header = CloneGroupOffsetHeader(src_group=EVERYWHERE, dest_group=f"Gone{world.round}", offline=True)
        assert (await peer.ask(Code.CLONE_GROUP_OFFSET, header)).code == 0


def _create(world: World) -> list[Request]:
    return [
        Request(
            CreateTopicHeader(
                topic=f"{LONGEST_TOPIC}{world.round}{number:03d}",
                default_topic="TBW102",
                read_queue_nums=QUEUES_MAX,
                write_queue_nums=QUEUES_MAX,
                perm=6,
                topic_filter_type="SINGLE_TAG",
            )
        )
        for number in range(SOME)
    ]


def _of_member(world: World) -> list[Request]:
    header = GetConsumerRunningInfoHeader(consumer_group=MEMBER_GROUP, client_id=MEMBER, jstack_enable=True)
    return [Request(header)] * SOME


def _directly(world: World) -> list[Request]:
    header = ConsumeMessageDirectlyHeader(
        consumer_group=MEMBER_GROUP, client_id=MEMBER, msg_id=world.large_message_id, topic=BUSY
    )
    return [Request(header)] * 4


def _by_place(world: World) -> list[Request]:
    return [Request(ViewMessageHeader(offset=world.large_message))] * 4


def _back(world: World) -> list[Request]:
    return [Request(ConsumerSendMsgBackHeader(offset=world.large_message, group=MEMBER_GROUP, delay_level=1))] * 8


def _resume(world: World) -> list[Request]:
    return [Request(ResumeCheckHalfMessageHeader(msg_id=half.fields()["msgId"])) for half in world.halves]


def _repeat(count: int) -> Requests:
    return times(count)


BROKER_INPUTS: Final[dict[int, Worst]] = {
    # Messages
    Code.SEND_MESSAGE: Worst(
        "the longest body is summed and copied, and as many keys as properties can hold are put into the index",
        times(4, _send(), LARGEST_BODY),
    ),
    Code.SEND_MESSAGE_V2: Worst("the same in the form of newer clients", times(4, _send_v2(), LARGEST_BODY)),
    Code.SEND_BATCH_MESSAGE: Worst(
        "as many messages as the longest body can hold: a message costs far more than its bytes",
        times(1, _send_v2(batch=True, properties=""), BATCH),
    ),
    Code.CONSUMER_SEND_MSG_BACK: Worst("the largest message is read, copied and stored again, eight times", _back),
    Code.SEND_REPLY_MESSAGE: Worst(
        "the longest body is stored and passed on to the client that asked",
        times(4, _send(properties=REPLY_PROPERTIES), LARGEST_BODY),
    ),
    Code.SEND_REPLY_MESSAGE_V2: Worst(
        "the same in the form of newer clients", times(4, _send_v2(properties=REPLY_PROPERTIES), LARGEST_BODY)
    ),
    Code.PULL_MESSAGE: Worst(
        "the largest count, from the first of a million messages, none of which has the tag",
        times(4, _pull("rare", "TAG")),
        PULLED,
    ),
    Code.LITE_PULL_MESSAGE: Worst(
        "the largest count, and the longest expression is evaluated for each of a million messages",
        times(2, _pull(DEAREST_SQL, "SQL92")),
        PULLED,
    ),
    Code.POP_MESSAGE: Worst(
        "the longest expression is evaluated for each of a million messages, none of which matches",
        times(2, _pop(exp=DEAREST_SQL, exp_type="SQL92")),
        POPPED,
    ),
    Code.RECALL_MESSAGE: Worst(
        "one message for the timer, pipelined",
        times(
            MANY,
            RecallMessageHeader(
                topic=BUSY, recall_handle=RecallHandle(BUSY, "broker-a", wall_ms() + 3_600_000, "K").encode()
            ),
        ),
        frozenset({ResponseCode.SUCCESS, ResponseCode.ILLEGAL_OPERATION}),
    ),
    Code.PEEK_MESSAGE: Worst(
        "the widest topic: each queue is looked at",
        times(2, PeekMessageHeader(consumer_group=MEMBER_GROUP, topic=WIDE, queue_id=-1, max_msg_nums=32)),
        POPPED,
    ),
    Code.NOTIFICATION: Worst(
        "the widest topic: each queue is looked at",
        times(2, NotificationHeader(consumer_group=MEMBER_GROUP, topic=WIDE, queue_id=-1, poll_time=0)),
    ),
    Code.POLLING_INFO: Worst(
        "one lookup, pipelined",
        times(MANY, PollingInfoHeader(consumer_group=MEMBER_GROUP, topic=WIDE, queue_id=-1)),
    ),
    Code.ACK_MESSAGE: Worst("one lookup, pipelined", times(MANY, _ack(AckMessageHeader)), POPPED),
    Code.CHANGE_MESSAGE_INVISIBLETIME: Worst(
        "one lookup, pipelined", times(MANY, _ack(ChangeInvisibleTimeHeader, invisible_time=1)), POPPED
    ),
    Code.BATCH_ACK_MESSAGE: Worst("as many bits as a body can hold", times(4, None, _many_acks())),
    Code.QUERY_ASSIGNMENT: Worst(
        "the widest topic, of which each queue is in the answer",
        times(
            2,
            None,
            encode_body(
                QueryAssignmentRequest(client_id=MEMBER, consumer_group=MEMBER_GROUP, topic=WIDE, strategy_name="AVG")
            ),
        ),
    ),
    Code.SET_MESSAGE_REQUEST_MODE: Worst(
        "one change of the file, several times",
        lambda world: [
            Request(None, encode_body(MessageRequestMode(consumer_group=MEMBER_GROUP, topic=WIDE, mode=mode)))
            for mode in ("POP", "PULL") * 2
        ],
    ),
    Code.QUERY_MESSAGE: Worst(
        "a key with the hash of the key that a million messages have: all of them are looked at, none is found",
        times(
            1,
            QueryMessageHeader(
                topic=BUSY, key=COLLIDING_KEY, max_num=INT_MAX, begin_timestamp=0, end_timestamp=LONG_MAX
            ),
        ),
        frozenset({ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND, ResponseCode.SYSTEM_ERROR}),
    ),
    Code.VIEW_MESSAGE_BY_ID: Worst("the largest message", _by_place),
    Code.QUERY_CONSUME_QUEUE: Worst(
        "as many entries as one answer may have, four times, each looked at with the group's filter",
        times(
            4,
            QueryConsumeQueueHeader(topic=BUSY, queue_id=0, index=0, count=INT_MAX, consumer_group=MEMBER_GROUP),
        ),
    ),
    Code.END_TRANSACTION: Worst("half messages of the largest size are copied", _ends, before=_store_halves),
    Code.RESUME_CHECK_HALF_MESSAGE: Worst(
        "half messages of the largest size are read and stored again", _resume, before=_store_halves
    ),
    # Offsets
    Code.QUERY_CONSUMER_OFFSET: Worst(
        "one lookup, pipelined",
        times(MANY, QueryConsumerOffsetHeader(consumer_group=MEMBER_GROUP, topic=WIDE, queue_id=QUEUES_MAX - 1)),
    ),
    Code.UPDATE_CONSUMER_OFFSET: Worst(
        "one change, pipelined",
        times(
            MANY,
            UpdateConsumerOffsetHeader(
                consumer_group=MEMBER_GROUP, topic=WIDE, queue_id=QUEUES_MAX - 1, commit_offset=1
            ),
        ),
    ),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: Worst(
        "a million messages were stored in the same millisecond: the first and the last of them are looked for",
        times(MANY, SearchOffsetHeader(topic=BUSY, queue_id=0, timestamp=STORED_MS, boundary_type="upper")),
    ),
    Code.GET_MAX_OFFSET: Worst("one lookup, pipelined", times(MANY, GetMaxOffsetHeader(topic=BUSY, queue_id=0))),
    Code.GET_MIN_OFFSET: Worst("one lookup, pipelined", times(MANY, GetMinOffsetHeader(topic=BUSY, queue_id=0))),
    Code.GET_EARLIEST_MSG_STORETIME: Worst(
        "one lookup, pipelined", times(MANY, GetEarliestMsgStoretimeHeader(topic=BUSY, queue_id=0))
    ),
    Code.GET_ALL_CONSUMER_OFFSET: Worst("800,000 offsets in one answer", _repeat(1), MAY_BE_TOO_LONG),
    Code.GET_ALL_DELAY_OFFSET: Worst("a few numbers, pipelined", _repeat(MANY)),
    Code.GET_TIMER_CHECK_POINT: Worst("a few numbers, pipelined", _repeat(MANY)),
    Code.GET_TIMER_METRICS: Worst("an empty table, pipelined", _repeat(MANY)),
    Code.GET_ALL_MESSAGE_REQUEST_MODE: Worst("an empty table, pipelined", _repeat(MANY)),
    Code.GET_BROKER_HA_STATUS: Worst("a few slaves, pipelined", _repeat(MANY)),
    Code.EXCHANGE_BROKER_HA_INFO: Worst("three values, pipelined", times(MANY, ExchangeHAInfoHeader())),
    Code.RESET_MASTER_FLUSH_OFFSET: Worst(
        "without effect, pipelined", times(MANY, ResetMasterFlushOffsetHeader(master_flush_offset=0))
    ),
    Code.QUERY_CONSUME_TIME_SPAN: Worst(
        "the widest topic: four looks at each queue",
        times(SOME, QueryConsumeTimeSpanHeader(topic=WIDE, group=MEMBER_GROUP)),
    ),
    Code.QUERY_CORRECTION_OFFSET: Worst(
        "the widest topic, in which ten groups have an offset in every queue",
        times(2, QueryCorrectionOffsetHeader(compare_group=MEMBER_GROUP, topic=WIDE)),
    ),
    Code.CLONE_GROUP_OFFSET: Worst(
        "a group that has an offset in every topic, to a new one",
        lambda world: [
            Request(CloneGroupOffsetHeader(src_group=EVERYWHERE, dest_group=f"Clone{world.round}", offline=True))
        ],
    ),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: Worst(
        "the widest topic: each queue is searched by time, and set back",
        times(1, ResetOffsetHeader(topic=WIDE, group=MEMBER_GROUP, timestamp=1, is_force=True)),
    ),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: Worst(
        "each member of the group is asked, and answers with an offset in every queue of the widest topic",
        times(8, GetConsumerStatusHeader(topic=WIDE, group=MEMBER_GROUP)),
    ),
    # Clients
    Code.HEART_BEAT: Worst(
        "as many groups as a connection may have, all new: each makes a group and a retry topic", _new_groups
    ),
    Code.UNREGISTER_CLIENT: Worst(
        "one change, pipelined",
        times(MANY, UnregisterClientHeader(client_id="other", producer_group="other", consumer_group="other")),
    ),
    Code.GET_CONSUMER_LIST_BY_GROUP: Worst(
        "a list that is kept encoded, pipelined", times(MANY, GetConsumerListByGroupHeader(consumer_group=MEMBER_GROUP))
    ),
    Code.LOCK_BATCH_MQ: Worst("as many queues as one request may name", times(2, None, _locks())),
    Code.UNLOCK_BATCH_MQ: Worst("as many queues as one request may name", times(2, None, _locks())),
    Code.CHECK_CLIENT_CONFIG: Worst(
        "the longest expression is compiled",
        times(
            2,
            None,
            encode_body(CheckClientRequest(client_id=MEMBER, group=MEMBER_GROUP, subscription_data=_sql(DEAREST_SQL))),
        ),
    ),
    Code.GET_CONSUMER_RUNNING_INFO: Worst("the client answers with what it wants", _of_member),
    Code.CONSUME_MESSAGE_DIRECTLY: Worst("the largest message is passed on to a client", _directly),
    Code.GET_CONSUMER_CONNECTION_LIST: Worst(
        "all members and subscriptions of a group", times(SOME, GetConsumerConnectionListHeader(consumer_group="g0000"))
    ),
    Code.GET_PRODUCER_CONNECTION_LIST: Worst(
        "all members of a group", times(SOME, GetProducerConnectionListHeader(producer_group=PRODUCER_GROUP))
    ),
    Code.GET_ALL_PRODUCER_INFO: Worst("every producer in every group", _repeat(4)),
    Code.QUERY_TOPICS_BY_CONSUMER: Worst(
        "a group that has an offset in every topic, among 800,000 offsets",
        times(4, QueryTopicsByConsumerHeader(group=EVERYWHERE)),
    ),
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: Worst(
        "one lookup, pipelined", times(MANY, QuerySubscriptionByConsumerHeader(group=MEMBER_GROUP, topic=BUSY))
    ),
    # Topics
    Code.UPDATE_AND_CREATE_TOPIC: Worst("the widest topic with the longest name, twenty times", _create),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: Worst("5,000 new topics of the widest kind", _new_topics),
    Code.DELETE_TOPIC_IN_BROKER: Worst(
        "the widest topic, with files of 500 queues, and a group with an offset in every queue",
        lambda world: [Request(DeleteTopicHeader(topic=f"Wide{world.round}"))],
        before=_wide_again,
    ),
    Code.GET_ALL_TOPIC_CONFIG: Worst("20,000 topics in one answer", _repeat(4)),
    Code.GET_TOPIC_CONFIG: Worst("one lookup, pipelined", times(MANY, GetTopicConfigHeader(topic=WIDE))),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: Worst("20,000 topics are looked at", _repeat(SOME)),
    Code.GET_TOPIC_STATS_INFO: Worst("the widest topic, pipelined", times(SOME, GetTopicStatsInfoHeader(topic=WIDE))),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: Worst(
        "a topic in which every group has an offset, among 800,000 offsets",
        times(4, QueryTopicConsumeByWhoHeader(topic=topic_name(0))),
    ),
    # Groups
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Worst(
        "as many attributes as a body can hold", times(2, None, _group_with_attributes())
    ),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: Worst("5,000 new groups with the longest names", _new_group_list),
    Code.DELETE_SUBSCRIPTIONGROUP: Worst(
        "a group that has an offset in every topic, with its offsets",
        lambda world: [Request(DeleteSubscriptionGroupHeader(group_name=f"Gone{world.round}", remove_offset=True))],
        before=_group_again,
    ),
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Worst("all groups in one answer", _repeat(4)),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: Worst(
        "one lookup, pipelined", times(MANY, GetSubscriptionGroupConfigHeader(group=MEMBER_GROUP))
    ),
    # The broker as a whole
    Code.UPDATE_BROKER_CONFIG: Worst(
        "one setting, as often as a body can hold it",
        times(2, None, b"traceOn=true\n" * ((64 << 10) // 13)),
    ),
    Code.GET_BROKER_CONFIG: Worst("all settings as text, pipelined", _repeat(MANY)),
    Code.GET_BROKER_RUNTIME_INFO: Worst("all figures, and the disk is asked, pipelined", _repeat(SOME)),
    Code.GET_CONSUME_STATS: Worst(
        "a group that has an offset in every topic", times(2, GetConsumeStatsHeader(consumer_group=EVERYWHERE))
    ),
    Code.GET_BROKER_CONSUME_STATS: Worst(
        "every group in every topic: 800,000 offsets",
        times(1, GetBrokerConsumeStatsHeader(is_order=False)),
        MAY_BE_TOO_LONG,
    ),
    Code.VIEW_BROKER_STATS_DATA: Worst(
        "one lookup, pipelined",
        times(MANY, ViewBrokerStatsDataHeader(stats_name="TOPIC_PUT_NUMS", stats_key=topic_name(0))),
    ),
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: Worst("all queues of 20,000 topics are looked at", _repeat(1)),
    Code.CLEAN_UNUSED_TOPIC: Worst("20,000 topics are compared with the store's, 1,000 are deleted", _repeat(1)),
    Code.DELETE_EXPIRED_COMMITLOG: Worst("only asks the thread that deletes, pipelined", _repeat(MANY)),
}
