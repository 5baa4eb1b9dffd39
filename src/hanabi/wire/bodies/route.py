"""Routes: the route of a topic, the brokers of a cluster, lists of topics, tables of text.

Agrees with Java's TopicRouteData, QueueData, BrokerData, ClusterInfo, TopicList, KVTable and BrokerMemberGroup.
"""

from hanabi.wire.bodies.mappings import QueueMapping
from hanabi.wire.body import Body, always_written, always_written_new
from hanabi.wire.header import Int32, Int64


class QueueData(Body, frozen=True, kw_only=True, gc=False):
    """The number of queues of a topic that one broker serves, and their permissions."""

    broker_name: str
    perm: Int32
    read_queue_nums: Int32
    topic_sys_flag: Int32 = always_written(0)
    write_queue_nums: Int32


class BrokerData(Body, frozen=True, kw_only=True):
    """The addresses of one broker name: the master under 0, slaves under other ids."""

    broker_addrs: dict[Int64, str]
    broker_name: str
    cluster: str
    enable_acting_master: bool | None = None  # 5.x only, as is the zone
    zone_name: str | None = None


class TopicRoute(Body, frozen=True, kw_only=True):
    """Everything a client must know to reach the queues of a topic."""

    broker_datas: list[BrokerData] = always_written_new(list)
    filter_server_table: dict[str, list[str]] = always_written_new(dict)
    order_topic_conf: str | None = None
    queue_datas: list[QueueData] = always_written_new(list)
    topic_queue_mapping_by_broker: dict[str, QueueMapping] | None = None  # 5.x static topics


class ClusterInfo(Body, frozen=True, kw_only=True):
    """All brokers by name, and the names in each cluster."""

    broker_addr_table: dict[str, BrokerData] = always_written_new(dict)
    cluster_addr_table: dict[str, list[str]] = always_written_new(dict)


class BrokerMemberGroup(Body, frozen=True, kw_only=True):
    """5.x: the master and the slaves of one broker name."""

    broker_addrs: dict[Int64, str] = always_written_new(dict)
    broker_name: str | None = None
    cluster: str | None = None


class BrokerMemberGroupReply(Body, frozen=True, kw_only=True):
    """5.x: the answer to a question for a broker's members (Java's GetBrokerMemberGroupResponseBody)."""

    broker_member_group: BrokerMemberGroup | None = None


class TopicList(Body, frozen=True, kw_only=True):
    """Names of topics; a broker that lists its system topics adds an address of its own."""

    broker_addr: str | None = None
    topic_list: list[str] = always_written_new(list)


class KVTable(Body, frozen=True, kw_only=True):
    """Text under text: ordered-topic settings in the register reply, a broker's runtime figures."""

    table: dict[str, str] = always_written_new(dict)
