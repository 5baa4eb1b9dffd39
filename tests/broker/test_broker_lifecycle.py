"""A whole broker: it starts, serves, changes, stops, and goes on where it stopped."""

import asyncio
import json
import socket
import tarfile
from pathlib import Path

import msgspec
import pytest

from hanabi.broker.addresses import advertised_host, in_figures, pick_address
from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.broker.handlers.admin.support.table_merge import join_handlers
from hanabi.errors import ConfigError, MQError, StoreLocked
from hanabi.message import MessageQueue
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.store.config import FlushMode
from hanabi.testing.clock import ManualClock
from hanabi.testing.cluster import running_broker, running_cluster, small_store
from hanabi.wire.bodies.heartbeat import HeartbeatData, ProducerData
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import encode_body
from hanabi.wire.header import NoHeader
from hanabi.wire.headers.pull import PullMessageHeader
from hanabi.wire.headers.send import SendMessageV2Header
from hanabi.wire.message.message_id import decode_offset_id
from hanabi.wire.message.record import decode_records
from tests.broker.talk import Peer, connected
from tests.interop.processes import free_port

PLAIN = BrokerConfig(broker_name="broker-a")
SUSPEND_AND_SUBSCRIPTION = 2 | 4


def send_header(topic: str = "Orders", queue_id: int = 0) -> SendMessageV2Header:
    return SendMessageV2Header(
        producer_group="shop",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
        properties="",
    )


def pull_header(offset: int, *, group: str = "billing", topic: str = "Orders") -> PullMessageHeader:
    return PullMessageHeader(
        consumer_group=group,
        topic=topic,
        queue_id=0,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=SUSPEND_AND_SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=60_000,
        sub_version=0,
        subscription="*",
        expression_type="TAG",
    )


async def send(peer: Peer, body: bytes) -> Command:
    reply = await peer.ask(RequestCode.SEND_MESSAGE_V2, send_header(), body)
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return reply


async def pull(peer: Peer, offset: int) -> list[bytes]:
    reply = await peer.ask(RequestCode.PULL_MESSAGE, pull_header(offset))
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return [record.body for record in decode_records(reply.body)]


async def test_what_is_sent_can_be_pulled_and_is_there_after_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker.address) as peer:
        for number in range(3):
            await send(peer, b"%d" % number)
        assert await pull(peer, 0) == [b"0", b"1", b"2"]
        broker.tables.offsets.commit("billing", "Orders", 0, 2)
        assert (tmp_path / "abort").exists()
    assert not (tmp_path / "abort").exists()
    async with running_broker(tmp_path) as broker, connected(broker.address) as peer:
        assert broker.tables.offsets.find("billing", "Orders", 0) == 2
        assert "Orders" in broker.tables.topics
        assert broker.tables.groups.known("billing") is not None
        await send(peer, b"3")
        assert await pull(peer, 2) == [b"2", b"3"]


async def test_a_pull_that_waits_is_woken_by_a_send(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker.address) as peer:
        await send(peer, b"first")
        waiting = peer.start(RequestCode.PULL_MESSAGE, pull_header(1))
        await send(peer, b"second")
        assert [record.body for record in decode_records((await waiting).body)] == [b"second"]


async def test_a_stop_answers_the_pulls_that_wait_and_closes_connections_at_once(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker.address) as peer:
        await send(peer, b"first")
        waiting = peer.start(RequestCode.PULL_MESSAGE, pull_header(1))
        while not len(broker.tables.held_pulls):  # noqa: ASYNC110 - a table has no events
            await asyncio.sleep(0)
        async with asyncio.timeout(20):  # the pull would have waited longer
            await broker.stop()
            assert (await waiting).code == ResponseCode.PULL_NOT_FOUND
        await peer.closed_by_broker()


async def test_a_stop_answers_sends_that_wait_for_the_disk(tmp_path: Path) -> None:
    store = small_store(tmp_path, flush_mode=FlushMode.SYNC_FLUSH)
    async with running_broker(tmp_path, PLAIN, store) as broker, connected(broker.address) as peer:
        await send(peer, b"warm")
        answers = [peer.start(RequestCode.SEND_MESSAGE_V2, send_header(), b"%d" % number) for number in range(20)]
        while broker.store.reader.max_offset("Orders", 0) < 2:  # noqa: ASYNC110 - nor has a store
            await asyncio.sleep(0)
        await broker.stop()
        codes = {answer.result().code for answer in answers if answer.done() and not answer.exception()}
        assert codes == {ResponseCode.SUCCESS}


async def test_clients_are_routed_to_the_broker_while_it_runs_and_no_longer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with running_cluster(tmp_path) as running, connected(running.address) as peer:
            await send(peer, b"x")
            await running.broker.registration.settled()
            route = running.name_server.routes.route("Orders")
            assert route is not None
            assert route.broker_datas[0].broker_addrs == {0: running.address}
            await running.broker.stop()
            assert running.name_server.routes.route("Orders") is None

    with caplog.at_level("INFO"):
        await main()
    assert "has unregistered" in caplog.text


async def test_it_serves_while_its_name_server_is_down(tmp_path: Path) -> None:
    down = f"127.0.0.1:{free_port()}"
    config = msgspec.structs.replace(PLAIN, namesrv_addr=f"{down};no-such-host.invalid:9876")
    async with running_broker(tmp_path, config) as broker, connected(broker.address) as peer:
        await send(peer, b"x")
        assert await pull(peer, 0) == [b"x"]


async def test_a_changed_permission_is_told_to_name_servers_and_is_in_force_after_a_restart(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as running:
        running.broker.settings.update("brokerPermission=4\nmaxMessageSize=10\n")
        await running.broker.registration.settled()
        route = running.name_server.routes.route("BenchmarkTest")
        assert route is not None
        assert route.queue_datas[0].perm == 4
        assert running.broker.store.config.message_bytes_max == 10
    async with running_broker(tmp_path / "broker-a") as broker:
        assert broker.settings.broker.permission == 4


@pytest.mark.parametrize("enabled", [None, True])
async def test_old_clients_find_the_fast_port_two_below(tmp_path: Path, enabled: bool | None) -> None:
    port = free_port(beside=(-2, 1))
    config = msgspec.structs.replace(PLAIN, fast_port_enabled=enabled, listen_port=port)
    async with Broker(config, small_store(tmp_path)) as broker:
        assert await broker.start("127.0.0.1") == ("127.0.0.1", port)
        async with connected(("127.0.0.1", port - 2)) as peer:
            await send(peer, b"x")


async def test_the_fast_port_can_be_off_and_does_not_matter_if_it_is_taken(tmp_path: Path) -> None:
    port = free_port(beside=(-2, 1))
    off = msgspec.structs.replace(PLAIN, fast_port_enabled=False)
    with socket.create_server(("127.0.0.1", port - 2)):
        for config in (off, PLAIN):
            async with Broker(config, small_store(tmp_path)) as broker:
                await broker.start("127.0.0.1", port)
        wanted = msgspec.structs.replace(PLAIN, fast_port_enabled=True)
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port - 2}.*fastListenPortEnable=false"):
            await Broker(wanted, small_store(tmp_path)).start("127.0.0.1", port)


async def test_it_is_known_by_the_name_that_it_was_given_and_ids_carry_its_address(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, advertised_host="localhost", advertised_port=4711) as running:
        assert running.address == "localhost:4711"
        async with connected(running.broker.bound) as peer:
            reply = await send(peer, b"x")
        address = decode_offset_id(reply.fields()["msgId"]).address
        assert (address.host, address.port) == ("127.0.0.1", 4711)


async def test_a_start_that_fails_leaves_the_store_free(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}: .*choose another port"):
            await Broker(PLAIN, small_store(tmp_path)).start("127.0.0.1", port)
    assert not (tmp_path / "abort").exists()
    async with running_broker(tmp_path):
        with pytest.raises(StoreLocked):
            await Broker(PLAIN, small_store(tmp_path)).start("127.0.0.1", 0)


@pytest.mark.parametrize("host", ["192.0.2.1", "a..b", "no-such-host.invalid"])
async def test_a_host_that_cannot_be_listened_on_is_named(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigError, match=rf"cannot listen on {host}:0: "):
        await Broker(PLAIN, small_store(tmp_path)).start(host, 0)


async def test_a_home_that_cannot_be_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"home .*file cannot be written: "):
        await Broker(PLAIN, small_store(tmp_path / "file")).start("127.0.0.1", 0)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [({"message_delay_levels": "1s soon"}, "messageDelayLevel"), ({"broker_role": "SLAVE"}, "brokerRole")],
)
async def test_a_setting_that_cannot_be_is_named_and_the_home_is_free(
    tmp_path: Path, settings: dict[str, str], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        await Broker(msgspec.structs.replace(PLAIN, **settings), small_store(tmp_path)).start("127.0.0.1", 0)
    async with running_broker(tmp_path):
        pass


async def test_a_table_that_cannot_be_read_stops_the_start_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "subscriptionGroup.json").write_text("{")
    with pytest.raises(MQError, match=r"subscriptionGroup\.json"):
        await Broker(PLAIN, small_store(tmp_path)).start("127.0.0.1", 0)


async def test_a_table_that_cannot_be_saved_at_the_stop_does_not_keep_the_others(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker.address) as peer:
        await send(peer, b"x")
        broker.tables.offsets.commit("billing", "Orders", 0, 1)
        offsets = tmp_path / "config" / "consumerOffset.json"
        offsets.unlink(missing_ok=True)
        offsets.mkdir()
    assert not (tmp_path / "abort").exists()
    offsets.rmdir()
    async with running_broker(tmp_path) as broker, connected(broker.address) as peer:
        assert await pull(peer, 0) == [b"x"]


async def test_groups_that_read_too_slowly_are_stopped_if_that_is_wanted(tmp_path: Path) -> None:
    config = msgspec.structs.replace(PLAIN, disable_slow_consumers=True, consumer_fall_behind_bytes=10)
    async with running_broker(tmp_path, config) as broker:
        groups = broker.tables.groups
        for group, size in (("slow", 11), ("fast", 10)):
            groups.find(group)
            broker.tables.stats.fall_size(group, "Orders", 0, size)
        broker._stop_slow_consumers()
        slow, fast = groups.known("slow"), groups.known("fast")
        assert slow is not None
        assert fast is not None
        assert (slow.consume_enable, fast.consume_enable) == (False, True)


async def test_a_store_of_apache_is_opened_and_its_messages_are_served(tmp_path: Path) -> None:
    golden = Path(__file__).parents[1] / "golden" / "store-clean.tar.gz"
    with tarfile.open(golden) as archive:
        archive.extractall(tmp_path, filter="data")
    commit_log = next((tmp_path / "commitlog").iterdir())
    queue = next((tmp_path / "consumequeue").glob("*/*/*"))
    index = next((tmp_path / "index").iterdir(), None)
    store = small_store(
        tmp_path,
        commit_log_segment_bytes=commit_log.stat().st_size,
        consume_queue_segment_bytes=queue.stat().st_size,
        index_enabled=index is not None,
    )
    async with running_broker(tmp_path, PLAIN, store) as broker, connected(broker.address) as peer:
        assert broker.tables.offsets.find("cg_golden", "Golden", 0) == 5
        reply = await peer.ask(RequestCode.PULL_MESSAGE, pull_header(0, topic="Golden"))
        assert reply.code == ResponseCode.SUCCESS, reply.remark
        assert len(list(decode_records(reply.body))) == 5
    offsets = (tmp_path / "config" / "consumerOffset.json").read_text()
    assert '"Golden@cg_golden":{0:5,1:3,2:7,3:2\n' in offsets


async def test_a_code_that_nobody_answers_is_told_so_and_two_for_one_code_never_start(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker.address) as peer:
        assert (await peer.ask(50)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED

    table = {10: Handler(NoHeader, lambda *_: Reply())}
    with pytest.raises(ValueError, match="two handlers for SEND_MESSAGE"):
        join_handlers(table, table)


@pytest.mark.parametrize(
    ("addresses", "best"),
    [
        (["127.0.0.1", "192.168.0.5", "10.1.2.3"], "10.1.2.3"),
        (["192.168.0.5", "192.168.0.6"], "192.168.0.6"),
        (["::1", "fe80::1%eth0", "2001:db8::1"], "fe80::1%eth0"),
        (["2001:db8::1", "192.168.0.5"], "192.168.0.5"),
        (["127.0.0.1", "::1"], None),
        ([], None),
    ],
)
def test_of_a_machine_s_addresses_the_one_that_apache_would_take_is_taken(
    addresses: list[str], best: str | None
) -> None:
    assert pick_address(addresses) == best


def test_who_listens_on_one_address_is_reached_there_and_who_listens_on_all_at_the_machine_s() -> None:
    assert advertised_host("", "10.0.0.1") == "10.0.0.1"
    assert advertised_host("name", "10.0.0.1") == "name"
    for every in (all_addresses := ("", "0.0.0.0", "::")):  # noqa: S104
        assert advertised_host("", every) not in all_addresses


def test_a_name_without_an_address_is_no_reason_not_to_start() -> None:
    assert in_figures("10.0.0.1") == "10.0.0.1"
    assert in_figures("fe80::1%eth0") == "fe80::1"
    assert in_figures("localhost") == "127.0.0.1"
    assert in_figures("no-such-host.invalid")


async def test_what_was_saved_is_what_apache_would_read(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker.address) as peer:
        await send(peer, b"x")

    topics = json.loads((tmp_path / "config" / "topics.json").read_text())
    assert topics["topicConfigTable"]["Orders"] == {
        "order": False,
        "perm": 6,
        "readQueueNums": 4,
        "topicFilterType": "SINGLE_TAG",
        "topicName": "Orders",
        "topicSysFlag": 0,
        "writeQueueNums": 4,
    }


async def test_a_clock_that_is_set_parts_nobody_from_the_broker(tmp_path: Path) -> None:
    """Found by chaos: who was heard between the clock's jump back and the next look counted as silent for long."""
    clock = ManualClock()
    async with running_broker(tmp_path, now_ms=clock) as broker, connected(broker.address) as peer:
        heartbeat = HeartbeatData(client_id="shop-1", producer_data_set=[ProducerData(group_name="shops")])
        for jump_ms in (3_600_000, -3_600_000, -3_600_000, 3_600_000):
            broker.tables.clients.expire()
            clock.ms += jump_ms
            await peer.ask(RequestCode.HEART_BEAT, body=encode_body(heartbeat))
            broker.tables.clients.expire()
            assert broker.tables.producers.group("shops")


async def test_a_clock_that_is_set_forward_takes_no_queue_from_its_owner(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, now_ms=clock) as broker:
        queue = MessageQueue("Orders", "broker-a", 0)
        assert broker.tables.locks.lock("billing", "first", [queue]) == [queue]
        clock.ms += 3_600_000
        assert broker.tables.locks.lock("billing", "second", [queue]) == []
