"""Table of administrative requests: which file answers which request code, and the codes that are not supported.

Every code of Java's AdminBrokerProcessor and ConsumerManageProcessor (4.9.8) and of QueryMessageProcessor:

    code  name                                   answered in
      12  QUERY_MESSAGE                          handlers/query.py
      14  QUERY_CONSUMER_OFFSET                  handlers/offsets.py
      15  UPDATE_CONSUMER_OFFSET                 handlers/offsets.py
      17  UPDATE_AND_CREATE_TOPIC                topics.py
      18  UPDATE_AND_CREATE_TOPIC_LIST (5.x)     topics.py
      21  GET_ALL_TOPIC_CONFIG                   topics.py
      25  UPDATE_BROKER_CONFIG                   config.py
      26  GET_BROKER_CONFIG                      config.py
      28  GET_BROKER_RUNTIME_INFO                runtime.py
      29  SEARCH_OFFSET_BY_TIMESTAMP             handlers/offsets.py
      30  GET_MAX_OFFSET                         handlers/offsets.py
      31  GET_MIN_OFFSET                         handlers/offsets.py
      32  GET_EARLIEST_MSG_STORETIME             handlers/offsets.py
      33  VIEW_MESSAGE_BY_ID                     handlers/query.py
      38  GET_CONSUMER_LIST_BY_GROUP             handlers/clients.py
      41  LOCK_BATCH_MQ                          handlers/clients.py
      42  UNLOCK_BATCH_MQ                        handlers/clients.py
      43  GET_ALL_CONSUMER_OFFSET                offsets.py
      45  GET_ALL_DELAY_OFFSET                   offsets.py
      60  GET_TIMER_CHECK_POINT (5.x)            handlers/slave_tables.py
      61  GET_TIMER_METRICS (5.x)                handlers/slave_tables.py
     200  UPDATE_AND_CREATE_SUBSCRIPTIONGROUP    groups.py
     201  GET_ALL_SUBSCRIPTIONGROUP_CONFIG       groups.py
     202  GET_TOPIC_STATS_INFO                   topics.py
     203  GET_CONSUMER_CONNECTION_LIST           connections.py
     204  GET_PRODUCER_CONNECTION_LIST           connections.py
     207  DELETE_SUBSCRIPTIONGROUP               groups.py
     208  GET_CONSUME_STATS                      stats.py
     215  DELETE_TOPIC_IN_BROKER                 topics.py
     222  INVOKE_BROKER_TO_RESET_OFFSET          handlers/client_calls.py
     223  INVOKE_BROKER_TO_GET_CONSUMER_STATUS   handlers/client_calls.py
     225  ..._SUBSCRIPTIONGROUP_LIST (5.x)       groups.py
     300  QUERY_TOPIC_CONSUME_BY_WHO             topics.py
     303  QUERY_CONSUME_TIME_SPAN                offsets.py
     305  GET_SYSTEM_TOPIC_LIST_FROM_BROKER      topics.py
     306  CLEAN_EXPIRED_CONSUMEQUEUE             cleaning.py
     307  GET_CONSUMER_RUNNING_INFO              handlers/client_calls.py
     308  QUERY_CORRECTION_OFFSET                offsets.py
     309  CONSUME_MESSAGE_DIRECTLY               handlers/client_calls.py
     314  CLONE_GROUP_OFFSET                     offsets.py
     315  VIEW_BROKER_STATS_DATA                 stats.py
     316  CLEAN_UNUSED_TOPIC                     cleaning.py
     317  GET_BROKER_CONSUME_STATS               stats.py
     321  QUERY_CONSUME_QUEUE                    queues.py
     323  RESUME_CHECK_HALF_MESSAGE              half_messages.py
     328  GET_ALL_PRODUCER_INFO                  connections.py
     329  DELETE_EXPIRED_COMMITLOG               cleaning.py
     343  QUERY_TOPICS_BY_CONSUMER (5.x)         connections.py
     345  QUERY_SUBSCRIPTION_BY_CONSUMER (5.x)   connections.py
     351  GET_TOPIC_CONFIG (5.x)                 topics.py
     352  GET_SUBSCRIPTIONGROUP_CONFIG (5.x)     groups.py
     402  GET_ALL_MESSAGE_REQUEST_MODE (5.x)     handlers/slave_tables.py
     906  EXCHANGE_BROKER_HA_INFO (5.x)          handlers/replication.py
     907  GET_BROKER_HA_STATUS (5.x)             handlers/replication.py
     908  RESET_MASTER_FLUSH_OFFSET (5.x)        handlers/replication.py

Not supported, so that the reply is code 3:

    50 to 53                 accounts of 4.9: only with aclEnable, in accounts.py
    3001 to 3010             users and policies of 5.x: only with authenticationEnabled, in users.py and policies.py
    301, 302                 filter servers: not in 4.9.8 either
    353, 513                 5.x: forbidden groups, static topics
    354, 355                 5.x: RocksDB, which this broker does not have
    2001 to 2004             5.x: limits for readers of cold data, read-ahead of the log
    905, 1007, 1008          5.x: slaves that act as masters, and the controller
"""

from collections.abc import Callable, Mapping

from hanabi.broker.clients.consumers import Consumers
from hanabi.broker.clients.producers import Producers
from hanabi.broker.clients.queue_locks import QueueLocks
from hanabi.broker.filters.consumer_filters import ConsumerFilters
from hanabi.broker.handlers.admin.cleaning import cleaning_handlers
from hanabi.broker.handlers.admin.config import config_handlers
from hanabi.broker.handlers.admin.connections import connection_handlers
from hanabi.broker.handlers.admin.groups import group_handlers
from hanabi.broker.handlers.admin.half_messages import ResumesCheck, half_message_handlers
from hanabi.broker.handlers.admin.offsets import OffsetVersions, group_progress_handlers, offset_table_handlers
from hanabi.broker.handlers.admin.queues import queue_handlers
from hanabi.broker.handlers.admin.runtime import runtime_handlers
from hanabi.broker.handlers.admin.stats import stats_handlers
from hanabi.broker.handlers.admin.support.consume_progress import ConsumeProgress, HandedOutTo
from hanabi.broker.handlers.admin.support.queue_removal import QueueRemoval
from hanabi.broker.handlers.admin.support.table_merge import join_handlers
from hanabi.broker.handlers.admin.topics import Registered, topic_change_handlers, topic_view_handlers
from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.broker.settings import Settings
from hanabi.broker.stats.broker_stats import BrokerStats
from hanabi.broker.tables.groups import Groups
from hanabi.broker.tables.topics import Topics
from hanabi.remoting.connection.dispatch import Handler
from hanabi.store.message_store import MessageStore


def admin_handlers(
    *,
    settings: Settings,
    topics: Topics,
    groups: Groups,
    offsets: ConsumerOffsets,
    store: MessageStore,
    stats: BrokerStats,
    producers: Producers,
    consumers: Consumers,
    locks: QueueLocks,
    filters: ConsumerFilters,
    transactions: ResumesCheck,
    handed_out_to: HandedOutTo,
    delay_offsets: Callable[[], Mapping[int, int]],
    registered: Registered,
    wait_ms: Callable[[], int],
    now_ms: Callable[[], int],
    address: str,
    copied: Callable[[], OffsetVersions | None] = lambda: None,
) -> dict[int, Handler]:
    """Return all administrative handlers. Each file gets only the parts that it needs.

    *handed_out_to* is the end of what a POP group was given, *delay_offsets* is the delivery progress of each delay
    level, *registered* waits until the name servers know the newest topics, *wait_ms* is the lateness of the event
    loop, *address* is how clients reach this broker, *copied* are the versions of a slave's offsets.
    """
    removal = QueueRemoval(store)
    progress = ConsumeProgress(store, offsets, consumers, settings.broker.broker_name, handed_out_to)
    return join_handlers(
        topic_change_handlers(topics, settings, removal, offsets, stats, registered),
        topic_view_handlers(topics, settings, store, stats, consumers, offsets),
        group_handlers(groups, settings, offsets, stats, consumers, locks),
        offset_table_handlers(offsets, delay_offsets, now_ms, copied),
        group_progress_handlers(offsets, store, topics, consumers, settings, now_ms),
        config_handlers(settings, now_ms),
        runtime_handlers(store, stats, settings, consumers, delay_offsets, wait_ms, now_ms),
        connection_handlers(producers, consumers, offsets, address, now_ms),
        stats_handlers(progress, topics, groups, offsets, stats, address),
        queue_handlers(store, consumers, filters, settings),
        cleaning_handlers(store, removal, topics, offsets, stats),
        half_message_handlers(transactions),
    )
