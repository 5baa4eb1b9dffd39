"""The port for slaves of a whole broker: where it is, what a slave gets, and what is said of it."""

import contextlib
import socket
from pathlib import Path

import pytest

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.broker.replica.roles import BrokerRole
from hanabi.errors import ConfigError
from hanabi.testing.cluster import running_broker, small_store
from hanabi.wire.bodies.ha_status import HAStatus
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import decode_body
from hanabi.wire.headers.v5.replication import ExchangeHAInfoReplyHeader
from tests.broker.replica.masters import SEGMENT, following, log_of, mute_slave, send, sync_master
from tests.broker.talk import connected
from tests.replication.logs import MemoryLog, until

ASYNC = BrokerRole.ASYNC_MASTER


async def test_a_slave_of_a_broker_gets_every_byte_of_its_log(tmp_path: Path) -> None:
    copy = MemoryLog(file_bytes=SEGMENT)
    async with sync_master(tmp_path, role=ASYNC) as broker, connected(broker.bound) as peer:
        await send(peer, b"before")
        async with following(broker, copy):
            await send(peer, b"after")
            await until(lambda: copy.end_offset == broker.store.max_log_offset)
        assert bytes(copy.data) == log_of(broker)[: copy.end_offset]


async def test_a_broker_that_stops_leaves_no_slave_behind(tmp_path: Path) -> None:
    copy = MemoryLog(file_bytes=SEGMENT)
    async with sync_master(tmp_path, role=ASYNC) as broker, connected(broker.bound) as peer, following(broker, copy):
        await send(peer, b"x" * 200_000)
        end = broker.store.max_log_offset
        await broker.stop()
        assert copy.end_offset == end


async def test_a_slave_that_never_reads_does_not_keep_a_broker_from_stopping(tmp_path: Path) -> None:
    async with sync_master(tmp_path, role=ASYNC) as broker, connected(broker.bound) as peer, mute_slave(broker):
        await send(peer)
        await broker.stop(0.1)


async def test_the_port_for_slaves_is_the_next_one_or_the_configured_one(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    config = BrokerConfig(broker_name="broker-a", ha_listen_port=port)
    async with running_broker(tmp_path, config) as broker:
        assert broker.settings.broker.ha_listen_port == port
        socket.create_connection(("127.0.0.1", port)).close()


async def test_a_port_for_slaves_that_is_taken_stops_the_start_with_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        broker = Broker(BrokerConfig(broker_name="broker-a", ha_listen_port=port), small_store(tmp_path))
        with pytest.raises(ConfigError, match=rf"cannot listen on 127.0.0.1:{port}: .* \(the port for slaves"):
            await broker.start("127.0.0.1", 0)


async def test_a_peer_that_is_not_allowed_is_closed(tmp_path: Path) -> None:
    async with sync_master(tmp_path, role=ASYNC, allowed_peers="192.0.2.1") as broker:
        with socket.create_connection(("127.0.0.1", broker.settings.broker.ha_listen_port)) as peer:
            await until(lambda: broker.master_side.master.refusals)
            peer.settimeout(10)
            with contextlib.suppress(ConnectionResetError):
                assert peer.recv(1) == b""


async def test_tls_for_slaves_needs_the_files_of_the_broker(tmp_path: Path) -> None:
    broker = Broker(BrokerConfig(broker_name="broker-a", ha_tls_enabled=True), small_store(tmp_path))
    with pytest.raises(ConfigError, match="haTlsEnable = true needs the broker's TLS files"):
        await broker.start("127.0.0.1", 0)


async def test_the_state_of_its_slaves_is_what_mqadmin_asks_for(tmp_path: Path) -> None:
    async with sync_master(tmp_path, role=ASYNC) as broker, connected(broker.bound) as peer:
        await send(peer)
        async with mute_slave(broker) as slave:
            start = broker.store.max_log_offset
            await send(peer)
            end = broker.store.max_log_offset
            await until(lambda: broker.master_side.master.slaves()[0].sent_offset == end)
            reply = await peer.ask(RequestCode.GET_BROKER_HA_STATUS)
            status = decode_body(reply.body, HAStatus)
            assert (status.master, status.master_commit_log_max_offset, status.in_sync_slave_nums) == (True, end, 1)
            (connection,) = status.ha_connection_info
            assert (connection.slave_ack_offset, connection.diff, connection.transfer_from_where) == (
                start,
                end - start,
                end,
            )
            slave.acknowledge(end)
            await until(lambda: not broker.master_side.master.slaves()[0].lag_bytes)


async def test_a_broker_of_its_name_learns_where_slaves_connect_to(tmp_path: Path) -> None:
    async with (
        sync_master(tmp_path, role=ASYNC, ha_advertised_host="192.0.2.7") as broker,
        connected(broker.bound) as peer,
    ):
        reply = await peer.ask(RequestCode.EXCHANGE_BROKER_HA_INFO, {})
        info = reply.header(ExchangeHAInfoReplyHeader)
        assert (info.master_ha_address, info.master_address) == (
            f"192.0.2.7:{broker.settings.broker.ha_listen_port}",
            broker.address,
        )
        follow = {"masterHaAddress": "203.0.113.9:10912", "masterFlushOffset": "0"}
        reply = await peer.ask(RequestCode.EXCHANGE_BROKER_HA_INFO, follow)
        assert (reply.code, reply.fields()) == (ResponseCode.SUCCESS, {})
        reply = await peer.ask(RequestCode.RESET_MASTER_FLUSH_OFFSET, {"masterFlushOffset": "7"})
        assert reply.code == ResponseCode.SUCCESS
