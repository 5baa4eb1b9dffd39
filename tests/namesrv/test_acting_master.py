"""A slave acts as master: its topics, the routes that clients get, and the notices to brokers."""

import asyncio
from pathlib import Path

import pytest

from hanabi.namesrv.config import NamesrvConfig
from hanabi.namesrv.route_table import RouteTable, SmallestChanged
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.transport.server import RemotingServer
from hanabi.testing.cluster import HOST
from hanabi.wire.bodies.topics import RegisterBrokerBody, TopicConfigTable, encode_register_body
from hanabi.wire.codes import RequestCode
from hanabi.wire.headers.namesrv import RegisterBrokerHeader
from hanabi.wire.headers.v5.replication import NotifyMinBrokerIdChangeHeader
from hanabi.wire.system_names import MEMBER_GROUP_PREFIX
from tests.namesrv.brokers import registration, topics, unregistration
from tests.namesrv.talk import running

MEMBERS = f"{MEMBER_GROUP_PREFIX}broker-a"
SENT = topics("T", MEMBERS)


class Group:
    """A table with the brokers of one name, and the notices that it causes."""

    def __init__(self, *, shows_acting_masters: bool = True) -> None:
        self.table = RouteTable(shows_acting_masters=shows_acting_masters)
        self.changes: list[SmallestChanged] = []
        self.table.on_smallest_changed = self.changes.append

    def come(self, address: str, broker_id: int, sent: TopicConfigTable = SENT, acting: bool | None = True) -> None:
        self.table.register(registration(address, broker_id=broker_id, acting=acting), sent, [], address, 0)

    def go(self, address: str, broker_id: int) -> None:
        self.table.unregister(unregistration(address, broker_id=broker_id))

    def route(self, topic: str = "T") -> tuple[dict[int, str], int]:
        """Return the addresses and the permission."""
        route = self.table.route(topic)
        assert route is not None
        return route.broker_datas[0].broker_addrs, route.queue_datas[0].perm


@pytest.fixture
def group() -> Group:
    group = Group()
    group.come("m:1", 0)
    group.come("s:1", 1)
    group.come("s:2", 2)
    return group


def test_without_a_master_the_smallest_slave_is_shown_as_master_and_takes_no_writes(group: Group) -> None:
    group.go("m:1", 0)
    assert group.route() == ({0: "s:1", 2: "s:2"}, 4)


def test_a_lost_connection_and_silence_take_write_permission_as_well(group: Group) -> None:
    group.table.owner_gone("m:1")
    assert group.route() == ({0: "s:1", 2: "s:2"}, 4)


def test_a_master_that_returns_has_its_id_and_its_permissions_again(group: Group) -> None:
    group.go("m:1", 0)
    group.come("s:1", 1)
    group.come("m:1", 0)
    assert group.route() == ({0: "m:1", 1: "s:1", 2: "s:2"}, 6)


def test_the_next_slave_acts_when_the_first_one_leaves_too(group: Group) -> None:
    group.go("m:1", 0)
    group.go("s:1", 1)
    assert group.route() == ({0: "s:2"}, 4)


def test_brokers_see_the_true_ids_of_their_members(group: Group) -> None:
    group.go("m:1", 0)
    assert group.route(MEMBERS)[0] == {1: "s:1", 2: "s:2"}
    assert group.table.addresses("broker-a") == {1: "s:1", 2: "s:2"}


def test_without_support_acting_master_routes_show_the_ids_as_they_are() -> None:
    group = Group(shows_acting_masters=False)
    group.come("m:1", 0)
    group.come("s:1", 1)
    group.go("m:1", 0)
    assert group.route() == ({1: "s:1"}, 4)  # the permission goes with the brokers' setting, as in Apache


def test_a_slave_that_may_not_act_changes_nothing() -> None:
    group = Group()
    group.come("m:1", 0, acting=False)
    group.come("s:1", 1, acting=False)
    group.go("m:1", 0)
    assert group.route() == ({1: "s:1"}, 6)


def test_a_slave_alone_provides_its_topics_without_write_permission() -> None:
    group = Group()
    group.come("s:2", 2)
    group.come("s:1", 1, topics("T", "U", version=2))
    assert group.route("U") == ({0: "s:1", 2: "s:2"}, 4)


def test_a_4_9_slave_alone_provides_no_topics() -> None:
    group = Group()
    group.come("s:1", 1, acting=None)
    assert group.table.route("T") is None


def test_a_topic_that_still_takes_writes_keeps_its_slave_a_slave(group: Group) -> None:
    """An operator gave the permission back: clients must not write to a slave."""
    group.go("m:1", 0)
    group.table.add_write_permission("broker-a")
    assert group.route() == ({1: "s:1", 2: "s:2"}, 6)


def test_all_who_stay_hear_that_the_smallest_left_and_the_others_that_a_smaller_came(group: Group) -> None:
    group.changes.clear()
    group.go("m:1", 0)
    (left,) = group.changes
    assert left.addresses == ["s:1", "s:2"]
    assert left.notice == NotifyMinBrokerIdChangeHeader(
        min_broker_id=1, min_broker_addr="s:1", offline_broker_addr="m:1"
    )
    group.come("m:1", 0)
    came = group.changes[1]
    assert came.addresses == ["s:1", "s:2"]
    assert came.notice == NotifyMinBrokerIdChangeHeader(
        min_broker_id=0, min_broker_addr="m:1", ha_broker_addr="ha-of-m:1"
    )


def test_a_slave_that_leaves_behind_a_smaller_one_is_no_news(group: Group) -> None:
    group.changes.clear()
    group.go("s:2", 2)
    group.come("s:2", 2)
    assert group.changes == []


async def test_the_notice_reaches_the_broker_at_its_address(tmp_path: Path) -> None:
    heard: asyncio.Queue[NotifyMinBrokerIdChangeHeader] = asyncio.Queue()

    def hear(header: NotifyMinBrokerIdChangeHeader, *_: object) -> Reply:
        heard.put_nowait(header)
        return Reply()

    broker = RemotingServer(
        {RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: Handler(NotifyMinBrokerIdChangeHeader, hear, 1024)}
    )
    host, port = await broker.start(HOST, 0)
    config = NamesrvConfig(notify_min_broker_id_changed=True, support_acting_master=True)
    body = encode_register_body(RegisterBrokerBody(topic_config_serialize_wrapper=SENT), False)
    try:
        async with running(tmp_path, config) as talk:
            master, slave = await talk.peer(), await talk.peer()

            async def register(peer: object, header: RegisterBrokerHeader) -> None:
                assert (await peer.ask(RequestCode.REGISTER_BROKER, header, body)).code == 0  # type: ignore[attr-defined]

            await register(master, registration("127.0.0.1:1", broker_id=0, acting=True))
            await register(slave, registration(f"{host}:{port}", broker_id=1, acting=True))
            await master.close()
            async with asyncio.timeout(30):
                notice = await heard.get()
        assert (notice.min_broker_id, notice.offline_broker_addr) == (1, "127.0.0.1:1")
    finally:
        await broker.stop(1.0)
