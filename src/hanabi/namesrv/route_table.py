"""Routes: which brokers serve which topics. Pure: no sockets, no files, the time comes as an argument.

    topic ──► broker name ──► how many queues, which permission         (from the broker's master)
                  │
                  └─────────► {broker id: member}     a member: an address in a cluster, with its last sign of life

Agrees with Java's RouteInfoManager in what is asked and answered. It differs where that one leaves ghosts behind:
a name is in a cluster while one of its members says so, and a broker that unregisters removes only itself.

Two broker names at one address of a cluster are almost always a mistake (two brokers that advertise the same one), but
both stand, as with Java: if the later one took the other's place, the routes of both would come and go with every
registration. The second to come is a warning that names the two. Java counts the signs of life of such an address for
both names, so that a name which is no longer used stays for ever; here each name has its own, and goes by itself.

Slave acting as master (5.x, `enableSlaveActingMaster` of the brokers): while a broker name has no master, its slave
with the smallest id provides the topics, without write permission. With `supportActingMaster` routes show that slave as
the master, so that clients read, lock and commit there. `on_smallest_changed` hears when the smallest id changes.

Cost: registering again without news is constant, with news linear in what was sent; a broker's coming and going is
linear in its own topics; a route is encoded once, and then a lookup until its queues or one of its brokers change.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from hanabi.errors import NoPermission
from hanabi.namesrv.absent_brokers import AbsentBrokers, Why
from hanabi.namesrv.encoded_routes import EncodedRoutes, RouteForm
from hanabi.namesrv.limits import RouteLimits, check_filter_servers, check_names
from hanabi.wire.bodies.route import BrokerData, ClusterInfo, QueueData, TopicList, TopicRoute
from hanabi.wire.bodies.topics import DataVersion, TopicConfig, TopicConfigTable
from hanabi.wire.fastjson import encode_body
from hanabi.wire.headers.namesrv import RegisterBrokerHeader, RegisterBrokerReplyHeader, UnregisterBrokerHeader
from hanabi.wire.headers.v5.replication import NotifyMinBrokerIdChangeHeader
from hanabi.wire.system_names import MEMBER_GROUP_PREFIX

MASTER_ID = 0
SILENCE_MS_MAX = 120_000  # for a broker that does not say how long it may be silent

_READ, _WRITE = 4, 2  # bits of a permission: Java's PermName
_UNIT, _UNIT_SUB = 1, 2  # bits of a topic's system flag: Java's TopicSysFlag

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Member:
    """One broker process: an id below a broker name, reachable at an address."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str
    owner: object  # the connection it registered by last
    seen_ms: int
    silence_ms_max: int = SILENCE_MS_MAX
    data_version: DataVersion | None = None  # of the topics it sent last
    topics_sent: int = 0  # most of them at once, with this version
    filter_servers: list[str] = field(default_factory=list)
    acting_master: bool = False  # 5.x: a slave may stand in for a lost master

    @property
    def place(self) -> tuple[str, str, str]:
        return self.cluster, self.broker_name, self.address

    def learns_from(self, sent: TopicConfigTable) -> bool:
        """Return whether *sent* says anything new about this member's topics: another version, or more than before."""
        return self.data_version != sent.data_version or len(sent.topic_config_table) > self.topics_sent

    def __str__(self) -> str:
        return f"{self.broker_name}:{self.broker_id} at {self.address}"


class SmallestChanged(NamedTuple):
    """A change of the smallest id of a broker name, and the members to notify of it (905)."""

    notice: NotifyMinBrokerIdChangeHeader
    addresses: list[str]


class _Broker:
    """A broker name: its members by id, and the topics that its master serves."""

    __slots__ = ("members", "name", "topics")

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: dict[int, Member] = {}
        self.topics: set[str] = set()

    def addresses(self) -> dict[int, str]:
        return {broker_id: self.members[broker_id].address for broker_id in sorted(self.members)}

    @property
    def smallest(self) -> Member:
        """Return the member with the smallest id."""
        return self.members[min(self.members)]

    @property
    def lacks_master(self) -> bool:
        """Return whether the name has only slaves, of which one may act as master."""
        return MASTER_ID not in self.members and self.smallest.acting_master

    def data(self, *, extended: bool = False, shows_acting: bool = False) -> BrokerData:
        """*extended*: with what 5.x adds, which clients of 5.x may rely on. *shows_acting*: the slave that acts as
        master has the master's id."""
        first = self.smallest
        addresses = self.addresses()
        if shows_acting:
            addresses = {MASTER_ID: addresses.pop(first.broker_id), **addresses}
        return BrokerData(
            broker_addrs=addresses,
            broker_name=self.name,
            cluster=first.cluster,
            enable_acting_master=first.acting_master if extended else None,
        )


class RouteTable:
    """All brokers and topics. Invariants: a broker has a member, a topic has a queue, a queue's broker is there."""

    def __init__(
        self,
        limits: RouteLimits = RouteLimits(),  # noqa: B008 - frozen
        *,
        shows_acting_masters: bool = False,
    ) -> None:
        self._limits, self._shows_acting_masters = limits, shows_acting_masters
        self.on_smallest_changed: Callable[[SmallestChanged], None] = lambda _: None
        self._brokers: dict[str, _Broker] = {}
        self._queues: dict[str, dict[str, QueueData]] = {}  # topic -> broker name -> queues
        self._queues_total = 0  # of all topics on all brokers
        self._places: dict[tuple[str, str, str], Member] = {}  # (cluster, broker name, address) -> member
        self._owned: dict[object, set[Member]] = {}
        self._encoded = EncodedRoutes()
        self.absent = AbsentBrokers()

    # ── brokers come, stay and go ──

    def register(
        self,
        header: RegisterBrokerHeader,
        sent: TopicConfigTable,
        filter_servers: list[str] | None,
        owner: object,
        now_ms: int,
    ) -> RegisterBrokerReplyHeader:
        """Register a broker and its topics. The result tells a slave where its master is.

        *filter_servers* is None for a broker too old to know of them. NoPermission if it is more than our limits allow;
        then nothing has changed.
        """
        broker = self._brokers.get(header.broker_name)
        member = broker.members.get(header.broker_id) if broker else None
        place = (header.cluster_name, header.broker_name, header.broker_addr)
        known = member if member is not None and member.place == place else None
        self._check_limits(header, filter_servers or [], is_new=place not in self._places)
        provides = _provides_topics(header, broker)
        if provides and (known is None or known.learns_from(sent)):
            self._check_topics(header.broker_name, {topic.topic_name for topic in sent.topic_config_table.values()})
        if broker is None or member is None or known is None:
            if member is not None and _is_outdated(sent.data_version, member.data_version):
                # 5.x: two masters after a change of roles; the one of an older term must not win.
                logger.warning("%s at %s is refused: %s is of a newer term", *_who(header), member)
                return RegisterBrokerReplyHeader()
            broker, member = self._join(header, owner, now_ms)
        member.acting_master = header.enable_acting_master is True
        if provides:
            self._learn_topics(broker, member, sent)
        member.data_version = sent.data_version
        member.ha_address = header.ha_server_addr
        member.seen_ms = now_ms
        member.silence_ms_max = _silence_ms_max(header)
        self._give_to(owner, member)
        if filter_servers is not None and filter_servers != member.filter_servers:
            member.filter_servers = filter_servers
            self._encoded.forget(broker.topics)
        master = broker.members.get(MASTER_ID)
        if master is None or master is member:
            return RegisterBrokerReplyHeader()
        return RegisterBrokerReplyHeader(ha_server_addr=master.ha_address, master_addr=master.address)

    def unregister(self, header: UnregisterBrokerHeader) -> None:
        """Remove a broker that leaves. A broker that has taken over its id in the meantime stays."""
        member = self._places.get((header.cluster_name, header.broker_name, header.broker_addr))
        self.absent.left(header.broker_name, header.broker_addr)
        if member is not None:
            self._remove(member)
            logger.info("broker %s has unregistered", member)

    def owner_gone(self, owner: object) -> list[Member]:
        """Remove the brokers that registered last by the connection *owner*, which was closed."""
        gone = list(self._owned.get(owner, ()))
        for member in gone:
            self._miss(member, "gone")
            self._remove(member)
            logger.info("broker %s is gone: its connection was closed", member)
        return gone

    def expire(self, now_ms: int) -> list[Member]:
        """Expire brokers without a recent registration, and return them."""
        gone = [member for member in self._places.values() if member.seen_ms + member.silence_ms_max < now_ms]
        for member in gone:
            self._miss(member, "gone")
            self._remove(member)
            logger.warning("broker %s is gone: silent for %d ms", member, now_ms - member.seen_ms)
        return gone

    def owns_brokers(self, owner: object) -> bool:
        """Return whether a broker registered last by the connection *owner*."""
        return owner in self._owned

    def seen(self, cluster: str, broker_name: str, address: str, now_ms: int) -> None:
        """Refresh a broker's expiry without a change."""
        member = self._places.get((cluster, broker_name, address))
        if member is not None:
            member.seen_ms = now_ms

    def data_version(self, cluster: str, broker_name: str, address: str) -> DataVersion | None:
        """Return the version of the topics that the broker sent last."""
        member = self._places.get((cluster, broker_name, address))
        return member.data_version if member else None

    def _check_limits(self, header: RegisterBrokerHeader, filter_servers: list[str], *, is_new: bool) -> None:
        names = (header.broker_name, header.broker_addr, header.cluster_name, header.ha_server_addr)
        check_names(names, what="broker's name or address")
        check_filter_servers(filter_servers)
        if is_new and len(self._places) >= self._limits.brokers_max:
            raise NoPermission(
                f"{len(self._places)} brokers are registered, limit {self._limits.brokers_max} (brokersMax)"
            )

    def _check_topics(self, broker_name: str, topics: set[str]) -> None:
        """Refuse what would be too much, together with what is already there."""
        broker = self._brokers.get(broker_name)
        known: set[str] = broker.topics if broker else set()
        new = topics - known
        if not new:
            return
        check_names(new, what="topic")
        limits = self._limits
        if (count := len(known) + len(new)) > limits.topics_per_broker_max:
            raise NoPermission(
                f"broker {broker_name} has {count} topics, limit {limits.topics_per_broker_max} (topicsPerBrokerMax)"
            )
        if (count := self._queues_total + len(new)) > limits.topics_total_max:
            raise NoPermission(f"{count} topics on all brokers, limit {limits.topics_total_max} (topicsTotalMax)")

    def _join(self, header: RegisterBrokerHeader, owner: object, now_ms: int) -> tuple[_Broker, Member]:
        """Add a member in place of the broker that had its id, and of its own former entry."""
        member = Member(
            cluster=header.cluster_name,
            broker_name=header.broker_name,
            broker_id=header.broker_id,
            address=header.broker_addr,
            ha_address=header.ha_server_addr,
            owner=owner,
            seen_ms=now_ms,
            acting_master=header.enable_acting_master is True,
        )
        self._warn_of_shared_address(member)
        self.absent.came(member.broker_name, member.broker_id, member.address)
        broker = self._brokers.setdefault(header.broker_name, _Broker(header.broker_name))
        is_smallest = bool(broker.members) and member.broker_id < min(broker.members)
        replaced = broker.members.get(header.broker_id), self._places.get(member.place)
        # First in, then out: a broker that only moved keeps its topics.
        broker.members[header.broker_id] = member
        self._places[member.place] = member
        self._owned.setdefault(owner, set()).add(member)
        for old in replaced:
            if old is not None:
                self._warn_of_another(old, member)
                self._remove(old)
        self._encoded.forget(broker.topics)
        logger.info("broker %s of cluster %s has joined", member, member.cluster)
        if is_smallest:
            self._notify(broker, [each.address for each in broker.members.values() if each is not member])
        return broker, member

    def _warn_of_shared_address(self, member: Member) -> None:
        for other in self._places.values():
            if (other.cluster, other.address) == (member.cluster, member.address) and (
                other.broker_name != member.broker_name
            ):
                logger.warning("two brokers advertise one address: %s and %s", other, member)
                return

    def _warn_of_another(self, old: Member, new: Member) -> None:
        """Return whether a broker only moved: its old connection is closed, or it registers by the same one."""
        if old.place == new.place or old.broker_id != new.broker_id or old.owner is new.owner:
            return
        self._miss(old, "replaced")
        logger.warning(
            "two brokers have one name and id: %s is replaced by %s, though its connection is open. Clients reach only"
            " the one that registered last. Give one of them a brokerName or brokerId of its own",
            old,
            new,
        )

    def _miss(self, member: Member, why: Why) -> None:
        self.absent.add(member.broker_name, member.broker_id, member.address, why, member.seen_ms)

    def _remove(self, member: Member) -> None:
        """Take *member* out of wherever it still stands, and with the last of a broker's members its topics."""
        owned = self._owned[member.owner]
        owned.discard(member)
        if not owned:
            del self._owned[member.owner]
        if self._places.get(member.place) is member:
            del self._places[member.place]
        broker = self._brokers[member.broker_name]
        was_smallest = broker.smallest is member
        if broker.members.get(member.broker_id) is member:
            del broker.members[member.broker_id]
        self._encoded.forget(broker.topics)
        if not broker.members:
            del self._brokers[broker.name]
            for topic in broker.topics:
                self._drop_queues(topic, broker.name)
        elif was_smallest:
            if broker.lacks_master:
                self.wipe_write_permission(broker.name)
                logger.info("broker %s acts as master: its topics can be read only", broker.smallest)
            self._notify(broker, list(broker.addresses().values()), offline=member.address)

    def _notify(self, broker: _Broker, addresses: list[str], *, offline: str | None = None) -> None:
        smallest = broker.smallest
        notice = NotifyMinBrokerIdChangeHeader(
            min_broker_id=smallest.broker_id,
            min_broker_addr=smallest.address,
            offline_broker_addr=offline,
            ha_broker_addr=None if offline else smallest.ha_address,
        )
        self.on_smallest_changed(SmallestChanged(notice, addresses))

    def _give_to(self, owner: object, member: Member) -> None:
        if member.owner is owner:
            return
        owned = self._owned[member.owner]
        owned.discard(member)
        if not owned:
            del self._owned[member.owner]
        member.owner = owner
        self._owned.setdefault(owner, set()).add(member)

    # ── topics ──

    def _learn_topics(self, broker: _Broker, master: Member, sent: TopicConfigTable) -> None:
        """Merge what a master sent: a topic that it does not mention stays."""
        topics = sent.topic_config_table
        if not master.learns_from(sent):
            return
        if master.data_version != sent.data_version:
            changed = sum(self._put_queues(broker, topic) for topic in topics.values())
        else:
            # Brokers send single topics, too. The first whole table of a version completes what they left out, but
            # repeats nothing: to undo a wiped permission is the operator's business.
            missing = [topic for topic in topics.values() if topic.topic_name not in broker.topics]
            changed = sum(self._put_queues(broker, topic) for topic in missing)
        master.topics_sent = len(topics)
        if changed:
            logger.info("broker %s: %d of %d topics sent are new or changed", master, changed, len(topics))

    def _put_queues(self, broker: _Broker, topic: TopicConfig) -> bool:
        return self._set_queues(
            topic.topic_name,
            broker,
            QueueData(
                broker_name=broker.name,
                perm=topic.perm & ~_WRITE if broker.lacks_master else topic.perm,
                read_queue_nums=topic.read_queue_nums,
                topic_sys_flag=topic.topic_sys_flag,
                write_queue_nums=topic.write_queue_nums,
            ),
        )

    def _set_queues(self, topic: str, broker: _Broker, queues: QueueData) -> bool:
        by_broker = self._queues.setdefault(topic, {})
        if by_broker.get(broker.name) == queues:
            return False
        self._queues_total += broker.name not in by_broker
        by_broker[broker.name] = queues
        broker.topics.add(topic)
        self._encoded.forget((topic,))
        return True

    def _drop_queues(self, topic: str, broker_name: str) -> None:
        by_broker = self._queues[topic]
        del by_broker[broker_name]
        self._queues_total -= 1
        if not by_broker:
            del self._queues[topic]

    def register_topic(self, topic: str, queues: Iterable[QueueData]) -> None:
        """5.x: one topic of brokers that are registered; nothing happens if one of them is not."""
        listed = list(queues)
        for each in listed:
            if each.broker_name not in self._brokers:
                logger.warning("topic %s is not registered: its broker %s is not", topic, each.broker_name)
                return
        for name in {each.broker_name for each in listed}:
            self._check_topics(name, {topic})
        for each in listed:
            self._set_queues(topic, self._brokers[each.broker_name], each)

    def delete_topic(self, topic: str, cluster: str | None = None) -> int:
        """Forget *topic*, everywhere or on the brokers of one cluster; return on how many brokers it was.

        A broker that still has it may bring it back.
        """
        count = 0
        for name in list(self._queues.get(topic, ())):
            broker = self._brokers[name]
            if not cluster or any(member.cluster == cluster for member in broker.members.values()):
                broker.topics.discard(topic)
                self._drop_queues(topic, name)
                count += 1
        self._encoded.forget((topic,))
        return count

    def wipe_write_permission(self, broker_name: str) -> int:
        """Remove write permission from all topics of this broker; return how many they are."""
        return self._change_permissions(broker_name, lambda perm: perm & ~_WRITE)

    def add_write_permission(self, broker_name: str) -> int:
        """Reads and writes for every topic of this broker, whatever was before; return how many it has."""
        return self._change_permissions(broker_name, lambda _: _READ | _WRITE)

    def _change_permissions(self, broker_name: str, change: Callable[[int], int]) -> int:
        broker = self._brokers.get(broker_name)
        if broker is None:
            return 0
        for topic in broker.topics:
            old = self._queues[topic][broker_name]
            self._set_queues(topic, broker, msgspec.structs.replace(old, perm=change(old.perm)))
        return len(broker.topics)

    # ── questions ──

    def route(self, topic: str, order_conf: str | None = None, *, extended: bool = False) -> TopicRoute | None:
        """Return the route of *topic*; None when no broker serves it."""
        by_broker = self._queues.get(topic)
        if by_broker is None:
            return None
        brokers = [self._brokers[name] for name in sorted(by_broker)]
        members = (member for broker in brokers for member in broker.members.values())
        return TopicRoute(
            broker_datas=[
                broker.data(extended=extended, shows_acting=self._shows_acting(topic, broker)) for broker in brokers
            ],
            filter_server_table={each.address: each.filter_servers for each in members if each.filter_servers},
            order_topic_conf=order_conf,
            queue_datas=[by_broker[broker.name] for broker in brokers],
        )

    def _shows_acting(self, topic: str, broker: _Broker) -> bool:
        """Return whether the route of *topic* shows the slave with the smallest id as the master of *broker*. Brokers
        that ask for the members of their own name get the true ids."""
        return (
            self._shows_acting_masters
            and broker.lacks_master
            and not self._queues[topic][broker.name].perm & _WRITE
            and not topic.startswith(MEMBER_GROUP_PREFIX)
        )

    def encoded_route(self, topic: str, form: RouteForm, order_conf: str | None = None) -> bytes | None:
        """`route` as it travels."""
        encoded = self._encoded.get(topic, form, order_conf)
        if encoded is None:
            route = self.route(topic, order_conf, extended=form is RouteForm.EXTENDED)
            if route is None:
                return None
            encoded = encode_body(route, standard=form is not RouteForm.DIALECT)
            self._encoded.keep(topic, form, order_conf, encoded)
        return encoded

    def addresses(self, broker_name: str) -> dict[int, str]:
        """Return the addresses of all members of a broker, by id."""
        broker = self._brokers.get(broker_name)
        return broker.addresses() if broker else {}

    def size(self) -> tuple[int, int, int]:
        """Return how many broker names, processes and topics there are."""
        return len(self._brokers), len(self._places), len(self._queues)

    def cluster_info(self, *, extended: bool = False) -> ClusterInfo:
        return ClusterInfo(
            broker_addr_table={name: broker.data(extended=extended) for name, broker in self._brokers.items()},
            cluster_addr_table=self._clusters(),
        )

    def _clusters(self) -> dict[str, list[str]]:
        clusters: dict[str, set[str]] = {}
        for member in self._places.values():
            clusters.setdefault(member.cluster, set()).add(member.broker_name)
        return {cluster: sorted(names) for cluster, names in clusters.items()}

    def all_topics(self) -> TopicList:
        return TopicList(topic_list=list(self._queues))

    def topics_of_cluster(self, cluster: str) -> TopicList:
        names = set(self._clusters().get(cluster, ()))
        return TopicList(topic_list=[topic for topic, queues in self._queues.items() if not names.isdisjoint(queues)])

    def system_topics(self) -> TopicList:
        """Return the topics named as a cluster or a broker, and the address of some broker that knows of more."""
        topics = [topic for cluster, names in self._clusters().items() for topic in (cluster, *names)]
        address = next((address for broker in self._brokers.values() for address in broker.addresses().values()), None)
        return TopicList(topic_list=list(dict.fromkeys(topics)), broker_addr=address)

    def unit_topics(self) -> TopicList:
        return self._topics_by_flag(lambda flag: bool(flag & _UNIT))

    def unit_subscribed_topics(self) -> TopicList:
        return self._topics_by_flag(lambda flag: bool(flag & _UNIT_SUB))

    def unit_subscribed_topics_of_no_unit(self) -> TopicList:
        return self._topics_by_flag(lambda flag: bool(flag & _UNIT_SUB) and not flag & _UNIT)

    def _topics_by_flag(self, fits: Callable[[int], bool]) -> TopicList:
        """Return the topic's flag from one of its brokers, as Java does: all should have the same."""
        chosen = (topic for topic, queues in self._queues.items() if fits(queues[min(queues)].topic_sys_flag))
        return TopicList(topic_list=list(chosen))


def _is_outdated(version: DataVersion, than: DataVersion | None) -> bool:
    return than is not None and version.state_version < than.state_version


def _provides_topics(header: RegisterBrokerHeader, broker: _Broker | None) -> bool:
    """Return whether the topics of a registration count: a master's, and those of a 5.x slave with the smallest id."""
    if header.broker_id == MASTER_ID:
        return True
    others = broker.members if broker is not None else {}
    return header.enable_acting_master is not None and all(header.broker_id <= other for other in others)


def _silence_ms_max(header: RegisterBrokerHeader) -> int:
    asked = header.heartbeat_timeout_millis
    return asked if asked is not None and asked > 0 else SILENCE_MS_MAX


def _who(header: RegisterBrokerHeader) -> tuple[str, str]:
    return f"{header.broker_name}:{header.broker_id}", header.broker_addr
