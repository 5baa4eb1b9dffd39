"""Table from request code to the rights that it needs: in ACL 1.0 (plain) and in ACL 2.0 (policy).

Where Apache checks nothing beyond the signature, this table does: any account of theirs may make itself administrator,
read offsets, locks and messages of other groups, or end transactions of other producers. A code without an entry needs
an administrator; a test walks the tables of handlers.

In ACL 1.0 a right on the cluster means an administrator. Its other actions are PUB and SUB.
"""

from typing import Final, NamedTuple

from hanabi.access import names
from hanabi.access.names import Naming
from hanabi.access.needs import Action, Rights
from hanabi.wire.codes import RequestCode as Code

_PUB, _SUB, _GET, _UPDATE = Action.PUB, Action.SUB, Action.GET, Action.UPDATE
_ADMIN: Final = Rights(cluster=_UPDATE)
_READ: Final = Rights(cluster=_GET)  # the state of the server


class Demand(NamedTuple):
    """The resources that requests of one code name, and the rights on them in both models."""

    named: Naming
    plain: Rights
    policy: Rights


_UNKNOWN: Final = Demand(names.nothing, _ADMIN, _ADMIN)


def _alike(named: Naming, rights: Rights) -> Demand:
    return Demand(named, rights, rights)


_send: Final = _alike(names.topic, Rights(topic=_PUB))
_reply: Final = _alike(names.reply, Rights(topic=_PUB))
_pull: Final = _alike(names.topic_and_consumer_group, Rights(_SUB, _SUB))
_lock: Final = _alike(names.locked_queues, Rights(_SUB, _SUB))
_topic_view: Final = Demand(names.topic, Rights(topic=_PUB | _SUB), Rights(topic=_GET))
_server_view: Final = Demand(names.nothing, _ADMIN, _READ)


def _group_view(named: Naming) -> Demand:
    return Demand(named, Rights(group=_SUB), Rights(topic=_GET, group=_GET))


BROKER_DEMANDS: Final[dict[int, Demand]] = {
    # messages
    Code.SEND_MESSAGE: _send,
    Code.SEND_MESSAGE_V2: _send,
    Code.SEND_BATCH_MESSAGE: _send,
    Code.SEND_REPLY_MESSAGE: _reply,
    Code.SEND_REPLY_MESSAGE_V2: _reply,
    Code.CONSUMER_SEND_MSG_BACK: _alike(names.sent_back, Rights(_SUB, _SUB)),
    Code.END_TRANSACTION: _alike(names.ended_transaction, Rights(topic=_PUB)),
    Code.RECALL_MESSAGE: _send,
    Code.PULL_MESSAGE: _pull,
    Code.LITE_PULL_MESSAGE: _pull,
    Code.POP_MESSAGE: _pull,
    Code.PEEK_MESSAGE: _pull,
    Code.NOTIFICATION: _pull,
    Code.POLLING_INFO: _pull,
    Code.ACK_MESSAGE: _alike(names.acknowledged, Rights(_SUB, _SUB)),
    Code.CHANGE_MESSAGE_INVISIBLETIME: _alike(names.acknowledged, Rights(_SUB, _SUB)),
    Code.BATCH_ACK_MESSAGE: _alike(names.acknowledged_batches, Rights(_SUB, _SUB)),
    Code.QUERY_ASSIGNMENT: _alike(names.assigned, Rights(_SUB, _SUB)),
    Code.SET_MESSAGE_REQUEST_MODE: Demand(names.request_mode, _ADMIN, Rights(_UPDATE, _UPDATE)),
    Code.QUERY_MESSAGE: Demand(names.topic, Rights(topic=_SUB), Rights(topic=_SUB | _GET)),
    Code.VIEW_MESSAGE_BY_ID: Demand(names.viewed, Rights(topic=_SUB), Rights(topic=_GET)),
    Code.QUERY_CONSUME_QUEUE: Demand(
        names.topic_and_consumer_group, Rights(topic=_SUB), Rights(topic=_GET, group=_GET)
    ),
    # clients
    Code.HEART_BEAT: _alike(names.heartbeat, Rights(_SUB, _SUB)),
    Code.UNREGISTER_CLIENT: _alike(names.consumer_group, Rights(group=_SUB)),
    Code.GET_CONSUMER_LIST_BY_GROUP: Demand(names.consumer_group, Rights(group=_SUB), Rights(group=_SUB | _GET)),
    Code.LOCK_BATCH_MQ: _lock,
    Code.UNLOCK_BATCH_MQ: _lock,
    Code.CHECK_CLIENT_CONFIG: _alike(names.checked_subscription, Rights(_SUB, _SUB)),
    # offsets
    Code.QUERY_CONSUMER_OFFSET: Demand(
        names.topic_and_consumer_group, Rights(_SUB, _SUB), Rights(_SUB | _GET, _SUB | _GET)
    ),
    Code.UPDATE_CONSUMER_OFFSET: Demand(
        names.topic_and_consumer_group, Rights(_SUB, _SUB), Rights(_SUB | _UPDATE, _SUB | _UPDATE)
    ),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: _topic_view,
    Code.GET_MAX_OFFSET: _topic_view,
    Code.GET_MIN_OFFSET: _topic_view,
    Code.GET_EARLIEST_MSG_STORETIME: _topic_view,
    # operators' requests about one topic or one group
    Code.GET_TOPIC_STATS_INFO: _topic_view,
    Code.QUERY_TOPIC_CONSUME_BY_WHO: _topic_view,
    Code.GET_TOPIC_CONFIG: _topic_view,
    Code.GET_CONSUMER_CONNECTION_LIST: _group_view(names.consumer_group),
    Code.GET_CONSUME_STATS: _group_view(names.consumer_group),
    Code.GET_CONSUMER_RUNNING_INFO: _group_view(names.consumer_group),
    Code.QUERY_CONSUME_TIME_SPAN: _group_view(names.topic_and_group),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: _group_view(names.topic_and_group),
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: _group_view(names.topic_and_group),
    Code.QUERY_TOPICS_BY_CONSUMER: _group_view(names.group),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: _group_view(names.group),
    Code.QUERY_CORRECTION_OFFSET: Demand(names.topic_and_compared_group, _ADMIN, Rights(_GET, _GET)),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: Demand(names.topic_and_group, Rights(_SUB, _SUB), Rights(_UPDATE, _UPDATE)),
    Code.CONSUME_MESSAGE_DIRECTLY: _alike(names.consumed_directly, Rights(_SUB, _SUB)),
    Code.CLONE_GROUP_OFFSET: Demand(names.cloned_groups, _ADMIN, Rights(_UPDATE, _UPDATE)),
    Code.RESUME_CHECK_HALF_MESSAGE: _alike(names.nothing, _ADMIN),
    # topics and groups
    Code.UPDATE_AND_CREATE_TOPIC: Demand(names.topic, _ADMIN, Rights(topic=Action.CREATE)),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: Demand(names.created_topics, _ADMIN, Rights(topic=Action.CREATE)),
    Code.DELETE_TOPIC_IN_BROKER: Demand(names.topic, _ADMIN, Rights(topic=Action.DELETE)),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _alike(names.nothing, _ADMIN),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _alike(names.nothing, _ADMIN),
    Code.DELETE_SUBSCRIPTIONGROUP: Demand(names.group_name, _ADMIN, Rights(group=Action.DELETE)),
    # the server as a whole
    Code.GET_ALL_TOPIC_CONFIG: _server_view,
    Code.GET_BROKER_CONFIG: _server_view,
    Code.GET_BROKER_RUNTIME_INFO: _server_view,
    Code.GET_ALL_CONSUMER_OFFSET: _server_view,
    Code.GET_ALL_DELAY_OFFSET: _server_view,
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: _server_view,
    Code.GET_PRODUCER_CONNECTION_LIST: _server_view,
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _server_view,
    Code.VIEW_BROKER_STATS_DATA: _server_view,
    Code.GET_BROKER_CONSUME_STATS: _server_view,
    Code.GET_ALL_PRODUCER_INFO: _server_view,
    Code.GET_BROKER_HA_STATUS: _server_view,
    Code.GET_TIMER_CHECK_POINT: _server_view,
    Code.GET_TIMER_METRICS: _server_view,
    Code.GET_ALL_MESSAGE_REQUEST_MODE: _server_view,
    Code.GET_BROKER_CLUSTER_ACL_INFO: _server_view,
    Code.AUTH_GET_USER: _server_view,
    Code.AUTH_LIST_USER: _server_view,
    Code.AUTH_GET_ACL: _server_view,
    Code.AUTH_LIST_ACL: _server_view,
    Code.UPDATE_BROKER_CONFIG: _alike(names.nothing, _ADMIN),
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: _alike(names.nothing, _ADMIN),
    Code.CLEAN_UNUSED_TOPIC: _alike(names.nothing, _ADMIN),
    Code.DELETE_EXPIRED_COMMITLOG: _alike(names.nothing, _ADMIN),
    Code.EXCHANGE_BROKER_HA_INFO: _alike(names.nothing, _ADMIN),
    Code.NOTIFY_MIN_BROKER_ID_CHANGE: _alike(names.nothing, _ADMIN),
    Code.RESET_MASTER_FLUSH_OFFSET: _alike(names.nothing, _ADMIN),
    Code.UPDATE_AND_CREATE_ACL_CONFIG: _alike(names.nothing, _ADMIN),
    Code.DELETE_ACL_CONFIG: _alike(names.nothing, _ADMIN),
    Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: _alike(names.nothing, _ADMIN),
    Code.AUTH_CREATE_USER: _alike(names.nothing, _ADMIN),
    Code.AUTH_UPDATE_USER: _alike(names.nothing, _ADMIN),
    Code.AUTH_DELETE_USER: _alike(names.nothing, _ADMIN),
    Code.AUTH_CREATE_ACL: _alike(names.nothing, _ADMIN),
    Code.AUTH_UPDATE_ACL: _alike(names.nothing, _ADMIN),
    Code.AUTH_DELETE_ACL: _alike(names.nothing, _ADMIN),
}

# Clients of all versions ask a name server these without a signature; every other code changes the name server.
NAME_SERVER_READS: Final[frozenset[int]] = frozenset(
    {
        Code.GET_ROUTEINFO_BY_TOPIC,
        Code.GET_BROKER_CLUSTER_INFO,
        Code.GET_BROKER_MEMBER_GROUP,
        Code.QUERY_DATA_VERSION,
        Code.GET_TOPICS_BY_CLUSTER,
        Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        Code.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        Code.GET_UNIT_TOPIC_LIST,
        Code.GET_HAS_UNIT_SUB_TOPIC_LIST,
        Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        Code.GET_KV_CONFIG,
        Code.GET_KVLIST_BY_NAMESPACE,
        Code.GET_NAMESRV_CONFIG,
    }
)


# A controller tells these to each client, as it tells them to mqadmin; every other code changes its state.
CONTROLLER_READS: Final[frozenset[int]] = frozenset(
    {
        Code.CONTROLLER_GET_REPLICA_INFO,
        Code.CONTROLLER_GET_METADATA_INFO,
        Code.CONTROLLER_GET_SYNC_STATE_DATA,
        Code.GET_CONTROLLER_CONFIG,
    }
)

# A container shows its settings to each client; every other code starts or stops a broker.
CONTAINER_READS: Final[frozenset[int]] = frozenset({Code.GET_BROKER_CONFIG})


def broker_demand(code: int) -> Demand:
    """Return what a broker demands for requests of *code*: an administrator, if the code has no entry."""
    return BROKER_DEMANDS.get(code, _UNKNOWN)


def name_server_demands_nothing(code: int) -> bool:
    """Return whether a name server answers requests of *code* to any client."""
    return code in NAME_SERVER_READS


def controller_demands_nothing(code: int) -> bool:
    """Return whether a controller answers requests of *code* to any client."""
    return code in CONTROLLER_READS


def container_demands_nothing(code: int) -> bool:
    """Return whether a container answers requests of *code* to any client."""
    return code in CONTAINER_READS
