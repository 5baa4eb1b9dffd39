"""A proxy before two brokers: the same calls, over remoting, with nothing kept in the proxy."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hanabi.grpc.proto.numbers import Code
from hanabi.grpc.serving.port import ProxyPort
from hanabi.grpc.serving.replies import prefixed
from hanabi.testing.cluster import Cluster, running_cluster
from hanabi.testing.waiting import eventually, within
from hanabi.wire.bodies.groups import SubscriptionGroupConfig
from tests.grpc.peers import GrpcPeer, ack_request, message, new, receive_request, resource, send_request


@asynccontextmanager
async def proxied(tmp_path: Path, **settings: Any) -> AsyncIterator[tuple[Cluster, list[GrpcPeer]]]:
    """Run two brokers and two proxies; yield a connection to each proxy."""
    names = ("broker-a", "broker-b")
    async with running_cluster(tmp_path, brokers=names, **settings) as cluster:
        ports = [ProxyPort([cluster.namesrv]) for _ in range(2)]
        peers = [await GrpcPeer.open(await port.start("127.0.0.1", 0)) for port in ports]
        try:
            yield cluster, peers
        finally:
            for peer in peers:
                await peer.close()
            for port in ports:
                await port.stop()


async def received(peer: GrpcPeer, broker: str, topic: str, group: str) -> list[Any]:
    request = receive_request(topic, group)
    request.message_queue.broker.name = broker
    parts = await peer.replies_to("ReceiveMessage", request)
    return [part.message for part in parts if part.HasField("message")]


async def test_messages_go_to_both_brokers_and_one_proxy_acknowledges_what_the_other_delivered(tmp_path: Path) -> None:
    async with proxied(tmp_path) as (cluster, (first, second)):
        topic = await cluster.create_topic("Orders", queues=2)
        route = await first.call("QueryRoute", new("QueryRouteRequest", topic=resource(topic)))
        assert [(queue.broker.name, queue.id) for queue in route.message_queues] == [
            ("broker-a", 0),
            ("broker-a", 1),
            ("broker-b", 0),
            ("broker-b", 1),
        ]
        for number in range(4):
            reply = await first.call("SendMessage", send_request(message(topic, b"%d" % number, number)))
            assert reply.status.code == Code.OK
        for broker, bodies in (("broker-a", [b"0", b"1"]), ("broker-b", [b"2", b"3"])):
            messages = await received(first, broker, topic, "Group")
            assert sorted(each.body for each in messages) == bodies
            handles = [each.system_properties.receipt_handle for each in messages]
            acked = await second.call("AckMessage", ack_request(topic, "Group", *handles))
            assert acked.status.code == Code.OK


async def test_an_unknown_topic_and_an_unknown_broker_have_their_statuses(tmp_path: Path) -> None:
    async with proxied(tmp_path) as (cluster, (peer, _)):
        topic = await cluster.create_topic("Orders")
        reply = await peer.call("QueryRoute", new("QueryRouteRequest", topic=resource("Other")))
        assert reply.status.code == Code.TOPIC_NOT_FOUND
        request = receive_request(topic, "Group")
        request.message_queue.broker.name = "broker-z"
        (part,) = await peer.replies_to("ReceiveMessage", request)
        assert part.status.code == Code.INTERNAL_SERVER_ERROR


async def test_settings_of_an_ordered_group_are_those_of_the_brokers(tmp_path: Path) -> None:
    async with proxied(tmp_path) as (cluster, (peer, _)):
        topic = await cluster.create_topic("Orders", queues=1)
        for broker in cluster.brokers:
            await broker.tables.groups.update(
                SubscriptionGroupConfig(group_name="Ordered", consume_message_orderly=True)
            )
        request = new("QueryAssignmentRequest", topic=resource(topic), group=resource("Ordered"))
        reply = await peer.call("QueryAssignment", request)
        assert [(each.message_queue.broker.name, each.message_queue.id) for each in reply.assignments] == [
            ("broker-a", 0),
            ("broker-b", 0),
        ]


async def test_a_transaction_is_checked_through_one_proxy_and_committed_through_the_other(tmp_path: Path) -> None:
    quick = {"transaction_timeout_ms": 1, "transaction_check_interval_ms": 50}
    async with proxied(tmp_path, **quick) as (cluster, (first, second)):
        topic = await cluster.create_topic("Orders", queues=1)
        stream_id, stream = first.start("Telemetry", "TelemetryCommand")
        settings = new("Settings", client_type=1)
        settings.publishing.topics.append(resource(topic))
        first.say(stream_id, prefixed(new("TelemetryCommand", settings=settings).SerializeToString()))
        assert (await stream.next()).status.code == Code.OK
        half = message(topic, b"half", message_type=4)
        half.system_properties.ClearField("born_timestamp")
        sent = await first.call("SendMessage", send_request(half))
        assert sent.entries[0].transaction_id
        check = (await stream.next()).recover_orphaned_transaction_command
        assert check.message.body == b"half"
        request = new("EndTransactionRequest", topic=resource(topic), message_id="id-0", resolution=1, source=2)
        request.transaction_id = check.transaction_id
        assert (await second.call("EndTransaction", request)).status.code == Code.OK
        await eventually(lambda: sum(broker.store.reader.max_offset(topic, 0) for broker in cluster.brokers) == 1)


async def test_messages_of_a_receive_whose_client_is_gone_are_soon_visible_again(tmp_path: Path) -> None:
    async with proxied(tmp_path) as (cluster, (first, second)):
        topic = await cluster.create_topic("Orders", queues=1)
        await first.call("QueryRoute", new("QueryRouteRequest", topic=resource(topic)))
        first.call_later("ReceiveMessage", receive_request(topic, "Group"))
        await eventually(lambda: len(cluster.broker.tables.held_pops) == 1)
        await first.close()
        await second.call("SendMessage", send_request(message(topic)))
        reply = second.call_later("ReceiveMessage", receive_request(topic, "Group"))
        assert (await within(reply.next())).status.code == Code.OK
        assert (await reply.next()).message.system_properties.delivery_attempt in (1, 2)
