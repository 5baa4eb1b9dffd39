"""The JSON bodies of requests and replies by code: for tests, for tools that show frames, and as an overview.

Servers do not need it: a handler knows its body. A code that is not here has no JSON body. A refusal has none
either, whatever this table says. A register request may also be compressed: see `topics.decode_register_body`.
"""

from hanabi.wire.bodies import (
    clients,
    groups,
    ha_status,
    heartbeat,
    locks,
    offsets,
    pop,
    route,
    stats,
    topics,
)
from hanabi.wire.bodies.v5 import controller
from hanabi.wire.body import Body
from hanabi.wire.codes import RequestCode

REQUEST_BODIES: dict[int, type[Body]] = {
    RequestCode.REGISTER_BROKER: topics.RegisterBrokerBody,
    RequestCode.QUERY_DATA_VERSION: topics.DataVersion,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: route.TopicRoute,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: topics.TopicConfigList,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: groups.SubscriptionGroupConfig,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: groups.SubscriptionGroupList,
    RequestCode.HEART_BEAT: heartbeat.HeartbeatData,
    RequestCode.CHECK_CLIENT_CONFIG: heartbeat.CheckClientRequest,
    RequestCode.LOCK_BATCH_MQ: locks.LockRequest,
    RequestCode.UNLOCK_BATCH_MQ: locks.LockRequest,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: offsets.ResetOffset,  # offsets.ResetOffsetList for a C++ client
    RequestCode.QUERY_ASSIGNMENT: pop.QueryAssignmentRequest,
    RequestCode.SET_MESSAGE_REQUEST_MODE: pop.MessageRequestMode,
    RequestCode.BATCH_ACK_MESSAGE: pop.BatchAckRequest,
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: controller.SyncStateSetBody,
    RequestCode.NOTIFY_BROKER_ROLE_CHANGED: controller.SyncStateSetBody,
}

REPLY_BODIES: dict[int, type[Body]] = {
    # Routes and lists of names
    RequestCode.REGISTER_BROKER: route.KVTable,
    RequestCode.GET_KVLIST_BY_NAMESPACE: route.KVTable,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: route.TopicRoute,
    RequestCode.GET_BROKER_CLUSTER_INFO: route.ClusterInfo,
    RequestCode.GET_BROKER_MEMBER_GROUP: route.BrokerMemberGroupReply,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: route.TopicList,
    RequestCode.GET_TOPICS_BY_CLUSTER: route.TopicList,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: route.TopicList,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: route.TopicList,
    RequestCode.GET_UNIT_TOPIC_LIST: route.TopicList,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: route.TopicList,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: route.TopicList,
    RequestCode.QUERY_TOPICS_BY_CONSUMER: route.TopicList,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: groups.GroupList,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: clients.ConsumerList,
    # Settings
    RequestCode.QUERY_DATA_VERSION: topics.DataVersion,
    RequestCode.GET_ALL_TOPIC_CONFIG: topics.TopicConfigTable,
    RequestCode.GET_TOPIC_CONFIG: topics.TopicConfig,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: groups.SubscriptionGroupTable,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: groups.SubscriptionGroupConfig,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: groups.GroupSubscription,
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: groups.GroupForbidden,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: pop.MessageRequestModeTable,
    # Queues and offsets
    RequestCode.LOCK_BATCH_MQ: locks.LockReply,
    RequestCode.QUERY_ASSIGNMENT: pop.QueryAssignmentReply,
    RequestCode.GET_ALL_CONSUMER_OFFSET: offsets.ConsumerOffsetTable,
    RequestCode.GET_ALL_DELAY_OFFSET: offsets.DelayOffsetTable,
    RequestCode.GET_TIMER_METRICS: offsets.TimerMetricsTable,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: offsets.ResetOffset,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: offsets.ConsumerStatus,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: offsets.ConsumerStatus,
    RequestCode.QUERY_CORRECTION_OFFSET: offsets.CorrectionOffsets,
    RequestCode.QUERY_CONSUME_TIME_SPAN: offsets.ConsumeTimeSpans,
    # Clients
    RequestCode.GET_CONSUMER_CONNECTION_LIST: clients.ConsumerConnection,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: clients.ProducerConnection,
    RequestCode.GET_ALL_PRODUCER_INFO: clients.ProducerTable,
    RequestCode.GET_CONSUMER_RUNNING_INFO: clients.ConsumerRunningInfo,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: clients.ConsumeMessageDirectlyResult,
    # Figures
    RequestCode.GET_BROKER_RUNTIME_INFO: route.KVTable,
    RequestCode.GET_BROKER_HA_STATUS: ha_status.HAStatus,
    RequestCode.GET_TOPIC_STATS_INFO: stats.TopicStatsTable,
    RequestCode.GET_CONSUME_STATS: stats.ConsumeStats,
    RequestCode.GET_BROKER_CONSUME_STATS: stats.ConsumeStatsList,
    RequestCode.VIEW_BROKER_STATS_DATA: stats.BrokerStatsData,
    RequestCode.QUERY_CONSUME_QUEUE: stats.ConsumeQueueReply,
    # Controllers
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: controller.SyncStateSetBody,
    RequestCode.CONTROLLER_ELECT_MASTER: controller.ElectMasterBody,
    RequestCode.CONTROLLER_REGISTER_BROKER: controller.SyncStateSetBody,
    RequestCode.CONTROLLER_GET_REPLICA_INFO: controller.SyncStateSetBody,
    RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: controller.BrokerReplicasInfo,
}
