"""Any interleaving of brokers' comings and goings gives what a simple model gives, and no encoded route is stale."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hanabi.namesrv.encoded_routes import RouteForm
from hanabi.namesrv.route_table import RouteTable
from hanabi.wire.fastjson import encode_body
from tests.namesrv.brokers import registration, topics, unregistration

NAMES = st.sampled_from(["broker-a", "broker-b"])
IDS = st.sampled_from([0, 0, 1, 2])
ADDRESSES = st.sampled_from(["a:1", "b:1", "c:1"])
CLUSTERS = st.sampled_from(["C", "C", "D"])
TOPICS = st.sampled_from(["T", "U", "V"])
OWNERS = st.integers(0, 2)
SILENCE_MS = st.sampled_from([None, 50_000])


@dataclass
class Registered:
    cluster: str
    address: str
    owner: int
    seen: int
    silence: int
    version: tuple[int, int] | None = None
    most_sent: int = 0
    filters: list[str] = field(default_factory=list)


class Model:
    """The rules, written for brevity: every change looks at everything."""

    def __init__(self) -> None:
        self.members: dict[tuple[str, int], Registered] = {}
        self.queues: dict[tuple[str, str], tuple[int, int]] = {}  # (topic, broker) -> (perm, queues)

    def settle(self) -> None:
        names = {name for name, _ in self.members}
        self.queues = {key: value for key, value in self.queues.items() if key[1] in names}

    def register(
        self, name: str, broker_id: int, new: Registered, sent: dict[str, tuple[int, int]], version: tuple[int, int]
    ) -> None:
        old = self.members.get((name, broker_id))
        moved = old is None or (old.cluster, old.address) != (new.cluster, new.address)
        if moved and old is not None and old.version is not None and old.version[1] > version[1]:
            return
        if old is not None and not moved:
            new.version, new.most_sent = old.version, old.most_sent
        place = (name, new.cluster, new.address)
        self.members = {
            key: each for key, each in self.members.items() if (key[0], each.cluster, each.address) != place
        }
        self.members[name, broker_id] = new
        if broker_id == 0:
            if new.version != version:
                self.queues |= {(topic, name): value for topic, value in sent.items()}
                new.most_sent = len(sent)
            elif len(sent) > new.most_sent:
                self.queues = {(topic, name): value for topic, value in sent.items()} | self.queues
                new.most_sent = len(sent)
        new.version = version
        self.settle()

    def drop(self, gone: set[tuple[str, int]]) -> None:
        self.members = {key: each for key, each in self.members.items() if key not in gone}
        self.settle()


class RouteTableMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = RouteTable()
        self.model = Model()
        self.now = 0

    @rule(
        name=NAMES,
        broker_id=IDS,
        address=ADDRESSES,
        cluster=CLUSTERS,
        owner=OWNERS,
        sent=st.sets(TOPICS),
        version=st.integers(1, 3),
        term=st.sampled_from([0, 0, 0, 1]),
        queues=st.integers(1, 2),
        silence=SILENCE_MS,
        filters=st.sampled_from([[], [], ["f:1"]]),
    )
    def register(
        self,
        name: str,
        broker_id: int,
        address: str,
        cluster: str,
        owner: int,
        sent: set[str],
        version: int,
        term: int,
        queues: int,
        silence: int | None,
        filters: list[str],
    ) -> None:
        self.table.register(
            registration(address, name, broker_id, cluster=cluster, timeout_ms=silence),
            topics(*sorted(sent), version=version, queues=queues, term=term),
            filters,
            owner,
            self.now,
        )
        new = Registered(cluster, address, owner, self.now, silence or 120_000, filters=filters)
        self.model.register(name, broker_id, new, dict.fromkeys(sent, (6, queues)), (version, term))

    @rule(name=NAMES, broker_id=IDS, address=ADDRESSES, cluster=CLUSTERS)
    def unregister(self, name: str, broker_id: int, address: str, cluster: str) -> None:
        self.table.unregister(unregistration(address, name, broker_id, cluster=cluster))
        self.model.drop(
            {
                key
                for key, each in self.model.members.items()
                if key[0] == name and (each.cluster, each.address) == (cluster, address)
            }
        )

    @rule(owner=OWNERS)
    def close_connection(self, owner: int) -> None:
        self.table.owner_gone(owner)
        self.model.drop({key for key, each in self.model.members.items() if each.owner == owner})

    @rule(elapsed=st.sampled_from([0, 30_000, 60_000]))
    def wait(self, elapsed: int) -> None:
        self.now += elapsed
        gone = {key for key, each in self.model.members.items() if each.seen + each.silence < self.now}
        assert {(each.broker_name, each.broker_id) for each in self.table.expire(self.now)} == gone
        self.model.drop(gone)

    @rule(name=NAMES, address=ADDRESSES, cluster=CLUSTERS)
    def heartbeat(self, name: str, address: str, cluster: str) -> None:
        self.table.seen(cluster, name, address, self.now)
        for key, each in self.model.members.items():
            if (key[0], each.cluster, each.address) == (name, cluster, address):
                each.seen = self.now

    @rule(name=NAMES, wipe=st.booleans())
    def change_permission(self, name: str, wipe: bool) -> None:
        count = self.table.wipe_write_permission(name) if wipe else self.table.add_write_permission(name)
        mine = {key: value for key, value in self.model.queues.items() if key[1] == name}
        assert count == len(mine)
        self.model.queues |= {key: ((perm & ~2) if wipe else 6, queues) for key, (perm, queues) in mine.items()}

    @rule(topic=TOPICS, cluster=st.sampled_from([None, "C", "D"]))
    def delete_topic(self, topic: str, cluster: str | None) -> None:
        self.table.delete_topic(topic, cluster)
        inside = {key[0] for key, each in self.model.members.items() if cluster in (None, each.cluster)}
        self.model.queues = {
            key: value for key, value in self.model.queues.items() if key[0] != topic or key[1] not in inside
        }

    @invariant()
    def routes_are_those_of_the_model(self) -> None:
        model = self.model
        assert set(self.table.all_topics().topic_list) == {topic for topic, _ in model.queues}
        for topic in ("T", "U", "V"):
            names = sorted(name for each, name in model.queues if each == topic)
            route = self.table.route(topic)
            if not names:
                assert route is None
                continue
            assert route is not None
            assert [(q.broker_name, q.perm, q.read_queue_nums) for q in route.queue_datas] == [
                (name, *model.queues[topic, name]) for name in names
            ]
            assert [(each.broker_name, each.broker_addrs) for each in route.broker_datas] == [
                (name, {key[1]: each.address for key, each in sorted(model.members.items()) if key[0] == name})
                for name in names
            ]
            filters = [each for key, each in model.members.items() if key[0] in names and each.filters]
            assert route.filter_server_table == {each.address: each.filters for each in filters}

    @invariant()
    def encoded_routes_are_never_stale(self) -> None:
        for topic in ("T", "U", "V"):
            for form in RouteForm:
                fresh = self.table.route(topic, extended=form is RouteForm.EXTENDED)
                expected = None if fresh is None else encode_body(fresh, standard=form is not RouteForm.DIALECT)
                assert self.table.encoded_route(topic, form) == expected

    @invariant()
    def clusters_and_versions_are_those_of_the_model(self) -> None:
        clusters: dict[str, set[str]] = {}
        for (name, _), each in self.model.members.items():
            clusters.setdefault(each.cluster, set()).add(name)
            known = self.table.data_version(each.cluster, name, each.address)
            assert known is not None
            assert (known.counter, known.state_version) == each.version
        info = self.table.cluster_info()
        assert {cluster: set(names) for cluster, names in info.cluster_addr_table.items()} == clusters
        assert set(info.broker_addr_table) == {name for name, _ in self.model.members}
        for owner in range(3):
            assert self.table.owns_brokers(owner) == any(each.owner == owner for each in self.model.members.values())


TestRouteTable = RouteTableMachine.TestCase
TestRouteTable.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
