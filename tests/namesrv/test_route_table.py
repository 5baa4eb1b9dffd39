"""The route table keeps who serves what, and forgets who is gone."""

import msgspec
import pytest

from hanabi.errors import NoPermission
from hanabi.namesrv.encoded_routes import EncodedRoutes, RouteForm
from hanabi.namesrv.limits import FILTER_SERVERS_MAX, NAME_CHARACTERS_MAX, RouteLimits
from hanabi.namesrv.route_table import SILENCE_MS_MAX, RouteTable
from hanabi.wire.bodies.route import QueueData, TopicRoute
from hanabi.wire.bodies.topics import TopicConfigTable
from hanabi.wire.fastjson import encode_body
from hanabi.wire.headers.namesrv import RegisterBrokerHeader, RegisterBrokerReplyHeader
from tests.namesrv.brokers import registration, topics, unregistration

NO_TOPICS = topics()


class Table(RouteTable):
    """A table in which registering needs no owner and no time."""

    def says(
        self, header: RegisterBrokerHeader, sent: TopicConfigTable = NO_TOPICS, owner: object = "wire", now: int = 0
    ) -> RegisterBrokerReplyHeader:
        return self.register(header, sent, [], owner, now)

    def found(self, topic: str) -> TopicRoute:
        route = self.route(topic)
        assert route is not None
        return route

    def permission(self, topic: str, broker: str = "broker-a") -> int:
        (queues,) = [each for each in self.found(topic).queue_datas if each.broker_name == broker]
        return queues.perm


@pytest.fixture
def table() -> Table:
    return Table()


def test_a_topic_that_nobody_serves_has_no_route(table: Table) -> None:
    assert table.route("T") is None
    assert table.encoded_route("T", RouteForm.STANDARD) is None


def test_the_topics_of_a_master_have_routes(table: Table) -> None:
    table.says(registration("a:1"), topics("T", queues=8, perm=6))
    table.says(registration("b:1", "broker-b"), topics("T", queues=2, perm=4))
    route = table.found("T")
    assert [(each.broker_name, each.cluster, each.broker_addrs) for each in route.broker_datas] == [
        ("broker-a", "C", {0: "a:1"}),
        ("broker-b", "C", {0: "b:1"}),
    ]
    assert [(q.broker_name, q.read_queue_nums, q.write_queue_nums, q.perm) for q in route.queue_datas] == [
        ("broker-a", 8, 8, 6),
        ("broker-b", 2, 2, 4),
    ]


def test_a_slave_changes_no_queues(table: Table) -> None:
    table.says(registration("a:1"), topics("T", queues=8))
    table.says(registration("s:1", broker_id=1), topics("T", "Other", queues=1, version=9))
    assert table.found("T").queue_datas[0].read_queue_nums == 8
    assert table.found("T").broker_datas[0].broker_addrs == {0: "a:1", 1: "s:1"}
    assert table.route("Other") is None


def test_a_slave_is_told_where_its_master_is(table: Table) -> None:
    slave = registration("s:1", broker_id=1)
    assert table.says(slave) == RegisterBrokerReplyHeader()
    assert table.says(registration("a:1")) == RegisterBrokerReplyHeader()
    assert table.says(slave) == RegisterBrokerReplyHeader(ha_server_addr="ha-of-a:1", master_addr="a:1")


def test_an_unchanged_data_version_skips_the_work(table: Table) -> None:
    table.says(registration("a:1"), topics("T", queues=8, version=5))
    table.says(registration("a:1"), topics("T", queues=2, version=5))
    assert table.found("T").queue_datas[0].read_queue_nums == 8


def test_a_changed_data_version_updates_queues_and_keeps_what_it_does_not_mention(table: Table) -> None:
    table.says(registration("a:1"), topics("T", "Kept", queues=8, version=5))
    table.says(registration("a:1"), topics("T", "New", queues=2, version=6))
    assert {topic: table.found(topic).queue_datas[0].read_queue_nums for topic in ("T", "Kept", "New")} == {
        "T": 2,
        "Kept": 8,
        "New": 2,
    }


def test_the_whole_table_completes_what_single_topics_of_the_same_version_left_out(table: Table) -> None:
    table.says(registration("a:1"), topics("New", version=6))
    table.says(registration("a:1"), topics("Old", "New", version=6))
    assert sorted(table.all_topics().topic_list) == ["New", "Old"]


def test_to_complete_is_not_to_give_back_a_wiped_permission(table: Table) -> None:
    table.says(registration("a:1"), topics("T", version=5))
    table.wipe_write_permission("broker-a")
    table.says(registration("a:1"), topics("New", version=6))
    table.says(registration("a:1"), topics("T", "New", "More", version=6))
    assert table.permission("T") == 4
    assert table.permission("More") == 6


def test_a_master_at_a_new_address_updates_queues_whatever_its_data_version(table: Table) -> None:
    table.says(registration("a:1"), topics("T", queues=8, version=5))
    table.says(registration("a:2"), topics("T", queues=2, version=5))
    assert table.found("T").broker_datas[0].broker_addrs == {0: "a:2"}
    assert table.found("T").queue_datas[0].read_queue_nums == 2
    assert table.data_version("C", "broker-a", "a:1") is None


def test_a_higher_id_does_not_displace_the_address_of_a_lower_one(table: Table) -> None:
    table.says(registration("a:1"), topics("T"))
    table.says(registration("s:1", broker_id=1), topics("T"))
    assert table.addresses("broker-a") == {0: "a:1", 1: "s:1"}


def test_the_same_address_under_another_id_is_moved(table: Table) -> None:
    table.says(registration("a:1"), topics("T"))
    table.says(registration("s:1", broker_id=1))
    table.says(registration("s:1", broker_id=0), topics("T", queues=2))  # the slave became master
    assert table.addresses("broker-a") == {0: "s:1"}
    assert table.found("T").queue_datas[0].read_queue_nums == 2


def test_a_broker_that_only_changes_its_id_keeps_its_topics(table: Table) -> None:
    table.says(registration("a:1"), topics("T", "Other"))
    table.says(registration("a:1", broker_id=1), topics("T"))
    assert table.found("Other").broker_datas[0].broker_addrs == {1: "a:1"}


def test_two_names_at_one_address_both_stand_and_are_named_once(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    for now in range(3):  # they do not throw each other out again and again
        table.says(registration("a:1", "broker-a"), topics("T", "Old"), owner="wire 1", now=now)
        table.says(registration("a:1", "broker-b"), topics("T"), owner="wire 2", now=now)
        assert [each.broker_name for each in table.found("T").broker_datas] == ["broker-a", "broker-b"]
        assert table.route("Old") is not None
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning == "two brokers advertise one address: broker-a:0 at a:1 and broker-b:0 at a:1"


def test_a_name_that_its_broker_no_longer_uses_goes_by_itself(table: Table) -> None:
    table.says(registration("a:1", "old-name"), topics("T", "Old"), now=0)
    table.says(registration("a:1", "new-name"), topics("T"), now=1000)
    table.seen("C", "new-name", "a:1", 60_000)
    table.expire(1 + SILENCE_MS_MAX)
    assert [each.broker_name for each in table.found("T").broker_datas] == ["new-name"]
    assert table.route("Old") is None
    assert table.cluster_info().cluster_addr_table == {"C": ["new-name"]}


def test_equal_addresses_in_two_clusters_are_two_brokers(table: Table) -> None:
    table.says(registration("a:1", "broker-a", cluster="C"), topics("T"))
    table.says(registration("a:1", "broker-b", cluster="D"), topics("T"))
    assert len(table.found("T").broker_datas) == 2


def test_a_master_of_an_older_term_does_not_displace_a_newer_one(table: Table) -> None:
    table.says(registration("new:1"), topics("T", term=2))
    table.says(registration("old:1"), topics("T", term=1))
    assert table.addresses("broker-a") == {0: "new:1"}
    table.says(registration("newer:1"), topics("T", term=3))
    assert table.addresses("broker-a") == {0: "newer:1"}


def test_unregistering_removes_a_broker_and_the_topics_only_it_had(table: Table) -> None:
    table.says(registration("a:1"), topics("T", "OnlyA"))
    table.says(registration("b:1", "broker-b"), topics("T"))
    table.unregister(unregistration("a:1"))
    assert [each.broker_name for each in table.found("T").broker_datas] == ["broker-b"]
    assert [each.broker_name for each in table.found("T").queue_datas] == ["broker-b"]
    assert table.route("OnlyA") is None
    assert table.cluster_info().cluster_addr_table == {"C": ["broker-b"]}


def test_who_unregisters_late_does_not_take_his_successor_away(table: Table) -> None:
    table.says(registration("old:1"), topics("T"))
    table.says(registration("new:1"), topics("T"))
    table.unregister(unregistration("old:1"))
    assert table.addresses("broker-a") == {0: "new:1"}


def test_topics_stay_while_a_slave_is_left(table: Table) -> None:
    table.says(registration("a:1"), topics("T"))
    table.says(registration("s:1", broker_id=1))
    table.unregister(unregistration("a:1"))
    assert table.found("T").broker_datas[0].broker_addrs == {1: "s:1"}
    table.unregister(unregistration("s:1", broker_id=1))
    assert table.route("T") is None
    assert table.cluster_info().cluster_addr_table == {}


def test_a_broker_silent_for_too_long_is_gone(table: Table) -> None:
    table.says(registration("a:1"), topics("T"), now=1000)
    assert table.expire(1000 + SILENCE_MS_MAX) == []
    (gone,) = table.expire(1001 + SILENCE_MS_MAX)
    assert gone.address == "a:1"
    assert table.route("T") is None


def test_a_broker_may_say_how_long_it_may_be_silent(table: Table) -> None:
    table.says(registration("a:1", timeout_ms=500), now=0)
    table.says(registration("b:1", "broker-b", timeout_ms=0), now=0)  # says nothing sensible
    assert table.expire(500) == []
    assert [gone.address for gone in table.expire(501)] == ["a:1"]


def test_a_sign_of_life_is_enough_to_stay(table: Table) -> None:
    table.says(registration("a:1"), now=0)
    table.seen("C", "broker-a", "a:1", 100_000)
    table.seen("C", "broker-a", "nobody:1", 100_000)
    assert table.expire(200_000) == []
    table.says(registration("a:1"), now=200_000)
    assert table.expire(200_000 + SILENCE_MS_MAX) == []


def test_a_closed_connection_takes_all_its_brokers_with_it(table: Table) -> None:
    table.says(registration("a:1"), topics("T"), owner="wire 1")
    table.says(registration("b:1", "broker-b"), topics("T"), owner="wire 1")
    table.says(registration("c:1", "broker-c"), topics("T"), owner="wire 2")
    assert {gone.address for gone in table.owner_gone("wire 1")} == {"a:1", "b:1"}
    assert [each.broker_name for each in table.found("T").broker_datas] == ["broker-c"]
    assert not table.owns_brokers("wire 1")
    assert table.owns_brokers("wire 2")


def test_a_broker_that_registered_by_a_new_connection_outlives_the_old_one(table: Table) -> None:
    table.says(registration("a:1"), topics("T"), owner="wire 1")
    table.says(registration("a:1"), topics("T"), owner="wire 2")
    assert table.owner_gone("wire 1") == []
    assert table.route("T") is not None
    assert len(table.owner_gone("wire 2")) == 1


def test_the_data_version_is_what_the_broker_sent_last(table: Table) -> None:
    assert table.data_version("C", "broker-a", "a:1") is None
    table.says(registration("a:1"), topics("T", version=5))
    assert table.data_version("C", "broker-a", "a:1") == topics(version=5).data_version
    table.says(registration("s:1", broker_id=1), topics("T", version=7))
    assert table.data_version("C", "broker-a", "s:1") == topics(version=7).data_version


def test_write_permission_is_wiped_and_added(table: Table) -> None:
    table.says(registration("a:1"), topics("T", perm=7), owner=1)
    table.says(registration("a:1"), topics("U", perm=2, version=2), owner=1)
    table.says(registration("b:1", "broker-b"), topics("T", perm=6))
    assert table.wipe_write_permission("broker-a") == 2
    assert [table.permission("T"), table.permission("U"), table.permission("T", "broker-b")] == [5, 0, 6]
    assert table.add_write_permission("broker-a") == 2
    assert [table.permission("T"), table.permission("U")] == [6, 6]  # as in Java: what was before is not restored
    assert table.wipe_write_permission("nobody") == 0


def test_a_topic_is_deleted_everywhere_or_in_one_cluster(table: Table) -> None:
    table.says(registration("a:1", cluster="C"), topics("T", "U"))
    table.says(registration("b:1", "broker-b", cluster="D"), topics("T", "U"))
    assert table.delete_topic("T", "C") == 1
    assert [each.broker_name for each in table.found("T").queue_datas] == ["broker-b"]
    assert table.delete_topic("T", "nowhere") == 0
    assert table.delete_topic("T") == 1
    assert table.delete_topic("T") == 0
    assert table.route("T") is None
    assert table.all_topics().topic_list == ["U"]
    table.unregister(unregistration("a:1"))  # and does not stumble over the topic it no longer has
    assert [each.broker_name for each in table.found("U").queue_datas] == ["broker-b"]


def test_a_single_topic_is_registered_only_on_brokers_that_are_there(table: Table) -> None:
    table.says(registration("a:1"), topics("T"))
    queues = QueueData(broker_name="broker-a", perm=6, read_queue_nums=3, write_queue_nums=3)
    table.register_topic("New", [queues])
    assert table.found("New").queue_datas == [queues]
    elsewhere = QueueData(broker_name="broker-x", perm=6, read_queue_nums=3, write_queue_nums=3)
    table.register_topic("Bad", [queues, elsewhere])
    assert table.route("Bad") is None
    table.unregister(unregistration("a:1"))
    assert table.all_topics().topic_list == []


def test_filter_servers_are_in_the_route_until_their_broker_says_otherwise(table: Table) -> None:
    table.register(registration("a:1"), topics("T"), ["f:1"], "wire", 0)
    assert table.found("T").filter_server_table == {"a:1": ["f:1"]}
    table.register(registration("a:1"), topics("T"), None, "wire", 0)
    assert table.found("T").filter_server_table == {"a:1": ["f:1"]}
    table.register(registration("a:1"), topics("T"), [], "wire", 0)
    assert table.found("T").filter_server_table == {}


def test_topics_are_listed_by_cluster_by_system_and_by_unit(table: Table) -> None:
    table.says(registration("a:1", cluster="C"), topics("T", flag=1))
    table.says(registration("b:1", "broker-b", cluster="D"), topics("U", flag=2))
    table.says(registration("c:1", "broker-c", cluster="D"), topics("V", "W", flag=3))
    assert table.topics_of_cluster("D").topic_list == ["U", "V", "W"]
    assert table.topics_of_cluster("nowhere").topic_list == []
    assert sorted(table.system_topics().topic_list) == ["C", "D", "broker-a", "broker-b", "broker-c"]
    assert table.system_topics().broker_addr == "a:1"
    assert table.unit_topics().topic_list == ["T", "V", "W"]
    assert table.unit_subscribed_topics().topic_list == ["U", "V", "W"]
    assert table.unit_subscribed_topics_of_no_unit().topic_list == ["U"]


def test_a_name_is_in_a_cluster_while_one_of_its_members_says_so(table: Table) -> None:
    table.says(registration("a:1", cluster="C"), topics("T"))
    table.says(registration("s:1", broker_id=1, cluster="D"))
    assert table.cluster_info().cluster_addr_table == {"C": ["broker-a"], "D": ["broker-a"]}
    assert table.cluster_info().broker_addr_table["broker-a"].cluster == "C"
    table.unregister(unregistration("a:1", cluster="C"))
    assert table.cluster_info().cluster_addr_table == {"D": ["broker-a"]}
    assert table.found("T").broker_datas[0].cluster == "D"


@pytest.mark.parametrize("form", RouteForm)
def test_a_route_is_encoded_once_until_it_changes(table: Table, form: RouteForm) -> None:
    table.says(registration("a:1"), topics("T", "U"))
    table.says(registration("b:1", "broker-b"), topics("U"))
    first = table.encoded_route("T", form)
    other = table.encoded_route("U", form)
    table.says(registration("a:1"), topics("T", "U"), now=30_000)  # no news
    table.says(registration("b:1", "broker-b"), topics("U", queues=9, version=2))
    assert table.encoded_route("T", form) is first
    changed = table.encoded_route("U", form)
    assert changed != other
    expected = table.route("U", extended=form is RouteForm.EXTENDED)
    assert changed == encode_body(expected, standard=form is not RouteForm.DIALECT)


def test_an_encoded_route_has_the_order_configuration_it_was_asked_with(table: Table) -> None:
    table.says(registration("a:1"), topics("T"))
    for order_conf in (None, "broker-a:4", "broker-a:8", None):
        expected = encode_body(table.route("T", order_conf), standard=True)
        assert table.encoded_route("T", RouteForm.STANDARD, order_conf) == expected


def test_a_broker_that_leaves_costs_only_its_own_topics(table: Table) -> None:
    """Ten thousand topics of others are not even looked at: their encoded routes are the same objects."""
    for number in range(20):
        names = [f"topic-{number}-{index}" for index in range(500)]
        table.says(registration(f"b{number}:1", f"broker-{number}"), topics(*names), owner=number)
    before = {topic: table.encoded_route(topic, RouteForm.STANDARD) for topic in table.all_topics().topic_list}
    table.owner_gone(7)
    left = table.all_topics().topic_list
    assert len(left) == 19 * 500
    assert all(table.encoded_route(topic, RouteForm.STANDARD) is before[topic] for topic in left)


# ── limits ──


def test_a_broker_with_too_many_topics_is_refused_and_nothing_changes() -> None:
    table = Table(RouteLimits(topics_per_broker_max=2))
    with pytest.raises(NoPermission, match=r"broker broker-a has 3 topics, limit 2 \(topicsPerBrokerMax\)"):
        table.says(registration("a:1"), topics("T", "U", "V"))
    assert table.cluster_info().broker_addr_table == {}
    table.says(registration("a:1"), topics("T", "U"))
    table.says(registration("a:1"), topics("U", "T", version=2), now=7)
    with pytest.raises(NoPermission, match="topicsPerBrokerMax"):
        table.says(registration("a:1"), topics("V", version=3))  # topics that are not mentioned stay, and count
    with pytest.raises(NoPermission, match="topicsPerBrokerMax"):
        table.register_topic("V", [QueueData(broker_name="broker-a", perm=6, read_queue_nums=1, write_queue_nums=1)])
    assert sorted(table.all_topics().topic_list) == ["T", "U"]
    assert table.data_version("C", "broker-a", "a:1") == topics(version=2).data_version


def test_a_slave_may_mention_more_topics_than_are_kept() -> None:
    table = Table(RouteLimits(topics_per_broker_max=1, topics_total_max=1))
    table.says(registration("s:1", broker_id=1), topics("T", "U", "V"))
    assert table.addresses("broker-a") == {1: "s:1"}


def test_the_topics_of_all_brokers_together_have_a_limit() -> None:
    table = Table(RouteLimits(topics_total_max=3))
    table.says(registration("a:1"), topics("T", "U"))
    with pytest.raises(NoPermission, match=r"4 topics on all brokers, limit 3 \(topicsTotalMax\)"):
        table.says(registration("b:1", "broker-b"), topics("T", "V"))
    table.says(registration("b:1", "broker-b"), topics("T"))
    table.delete_topic("U")
    table.says(registration("b:1", "broker-b"), topics("V", version=2))  # there is room again
    table.unregister(unregistration("b:1", "broker-b"))
    table.says(registration("c:1", "broker-c"), topics("W", "X"))
    assert sorted(table.all_topics().topic_list) == ["T", "W", "X"]


def test_the_number_of_brokers_has_a_limit() -> None:
    table = Table(RouteLimits(brokers_max=2))
    table.says(registration("a:1"))
    table.says(registration("b:1", "broker-b"))
    with pytest.raises(NoPermission, match=r"2 brokers are registered, limit 2 \(brokersMax\)"):
        table.says(registration("c:1", "broker-c"))
    table.says(registration("a:1"), now=1)
    table.unregister(unregistration("a:1"))
    table.says(registration("c:1", "broker-c"))


@pytest.mark.parametrize("field", ["broker_name", "broker_addr", "cluster_name", "ha_server_addr"])
def test_names_are_short(table: Table, field: str) -> None:
    with pytest.raises(NoPermission, match=f"of {NAME_CHARACTERS_MAX + 1} characters, limit"):
        table.says(msgspec.structs.replace(registration("a:1"), **{field: "x" * (NAME_CHARACTERS_MAX + 1)}))
    with pytest.raises(NoPermission, match="a topic of"):
        table.says(registration("a:1"), topics("T", "x" * (NAME_CHARACTERS_MAX + 1)))
    assert table.cluster_info().broker_addr_table == {}
    table.says(registration("a:1"), topics("x" * NAME_CHARACTERS_MAX))


@pytest.mark.parametrize("servers", [["f:1"] * (FILTER_SERVERS_MAX + 1), ["x" * (NAME_CHARACTERS_MAX + 1)]])
def test_filter_servers_are_few(table: Table, servers: list[str]) -> None:
    with pytest.raises(NoPermission, match="filter server"):
        table.register(registration("a:1"), topics("T"), servers, "wire", 0)
    assert table.route("T") is None


def test_tens_of_thousands_of_topics_register(table: Table) -> None:
    names = [f"topic-{number}" for number in range(50_000)]
    table.says(registration("a:1"), topics(*names))
    assert len(table.all_topics().topic_list) == 50_000


def test_encoded_routes_keep_so_many_bytes_and_then_start_over() -> None:
    routes = EncodedRoutes(bytes_max=100)
    for number in range(10):
        routes.keep("T", RouteForm.STANDARD, None, bytes(60))  # the same one again is no more
        routes.keep(str(number), RouteForm.DIALECT, None, bytes(4))
    assert [number for number in range(10) if routes.get(str(number), RouteForm.DIALECT, None)] == list(range(10))
    routes.keep("U", RouteForm.STANDARD, None, bytes(4))
    assert (routes.get("T", RouteForm.STANDARD, None), routes.get("U", RouteForm.STANDARD, None)) == (None, bytes(4))
    routes.forget(["U", "nothing"])
    for number in range(24):
        routes.keep(str(number), RouteForm.DIALECT, None, bytes(4))
    assert routes.get("0", RouteForm.DIALECT, None) is not None
