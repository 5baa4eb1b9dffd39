"""Routes of a broker name whose master is gone: our name server answers as Apache's."""

from pathlib import Path

import pytest

from hanabi.wire.bodies.route import TopicRoute
from hanabi.wire.bodies.topics import RegisterBrokerBody, TopicConfig, TopicConfigTable
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.headers.namesrv import RegisterBrokerReplyHeader
from tests.interop.apache import ApacheNameServer
from tests.interop.ours import OurNameServer
from tests.interop.probe import Conversation

pytestmark = [pytest.mark.usefixtures("apache_jars")]


def identity(broker_id: int) -> dict[str, str]:
    return {
        "brokerName": "broker-a",
        "brokerAddr": f"127.0.0.1:{30000 + broker_id}",
        "clusterName": "DefaultCluster",
        "brokerId": str(broker_id),
    }


def register(talk: Conversation, broker_id: int, *topics: str) -> RegisterBrokerReplyHeader:
    table = {
        name: TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4, perm=6)
        for name in topics or ("x", "y")
    }
    body = RegisterBrokerBody(topic_config_serialize_wrapper=TopicConfigTable(topic_config_table=table))
    fields = {**identity(broker_id), "haServerAddr": f"127.0.0.1:{31000 + broker_id}", "compressed": "false"}
    reply = talk.ask(RequestCode.REGISTER_BROKER, fields, encode_body(body))
    assert reply.code == 0, reply.remark
    return reply.header(RegisterBrokerReplyHeader)


def story(address: str) -> list[object]:
    """What a master, its two slaves and a client hear from a name server, until only slaves are left."""
    heard: list[object] = []
    with Conversation(address) as master, Conversation(address) as slave, Conversation(address) as client:

        def routes() -> None:
            for topic in ("Orders", "OfSlave"):
                reply: Command = client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
                route = decode_body(bytes(reply.body), TopicRoute) if reply.body else None
                heard.append((reply.code, topic, route))

        heard.append(register(slave, 1, "Orders", "OfSlave"))
        routes()
        heard.append(register(master, 0, "Orders", "More"))
        heard.append(register(slave, 1, "Orders", "OfSlave"))
        routes()
        heard.append(master.ask(RequestCode.UNREGISTER_BROKER, identity(0)).code)
        heard.append(register(slave, 1, "Orders", "OfSlave"))
        heard.append(register(slave, 2, "Orders"))
        routes()
        heard.append(slave.ask(RequestCode.UNREGISTER_BROKER, identity(1)).code)
        heard.append(slave.ask(RequestCode.UNREGISTER_BROKER, identity(2)).code)
        routes()
    return heard


def test_a_name_without_its_master_has_the_routes_that_apache_gives_it(tmp_path: Path) -> None:
    servers: tuple[ApacheNameServer | OurNameServer, ...] = (
        ApacheNameServer(tmp_path / "apache"),
        OurNameServer(tmp_path / "ours"),
    )
    try:
        for server in servers:
            server.wait_ready()
        apaches, ours = (story(server.address) for server in servers)
    finally:
        for server in servers:
            server.process.kill()
    for number, (expected, found) in enumerate(zip(apaches, ours, strict=True)):
        assert found == expected, number
    last = [item for item in ours if isinstance(item, tuple)][-4:]
    assert "127.0.0.1:30001" in str(last[0])  # the slaves are left, and the topic's queues with them
