"""Telemetry: settings, membership, checks of transactions, commands of operators, renewed messages."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hanabi.grpc.proto.numbers import Code
from hanabi.grpc.serving.replies import prefixed
from hanabi.testing.waiting import eventually, within
from hanabi.wire.bodies.clients import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from hanabi.wire.bodies.groups import SubscriptionGroupConfig
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import decode_body
from hanabi.wire.headers.client import GetConsumerRunningInfoHeader
from tests.grpc.peers import (
    GrpcPeer,
    Place,
    ack_request,
    grpc_broker,
    message,
    new,
    receive_request,
    resource,
    send_request,
)


class Stream:
    """A Telemetry stream of one client."""

    def __init__(self, peer: GrpcPeer, metadata: dict[str, str] | None = None) -> None:
        self.peer = peer
        self.id, self.reply = peer.start("Telemetry", "TelemetryCommand", metadata)

    def say(self, command: Any, *, ends: bool = False) -> None:
        self.peer.say(self.id, prefixed(command.SerializeToString()), ends=ends)

    async def settle(self, settings: Any) -> Any:
        self.say(new("TelemetryCommand", settings=settings))
        return await self.reply.next()


def producer(*topics: str) -> Any:
    settings = new("Settings", client_type=1)
    settings.publishing.topics.extend(resource(topic) for topic in topics)
    settings.publishing.SetInParent()
    return settings


def consumer(group: str, topic: str, expression: str = "*") -> Any:
    settings = new("Settings", client_type=2)
    settings.subscription.group.name = group
    entry = settings.subscription.subscriptions.add(topic=resource(topic))
    entry.expression.type, entry.expression.expression = 1, expression
    return settings


@asynccontextmanager
async def streaming(tmp_path: Path, **settings: Any) -> AsyncIterator[tuple[Place, Stream]]:
    async with grpc_broker(tmp_path, **settings) as place:
        await place.create_topic("Orders", queues=1)
        yield place, Stream(place.peer)


async def test_settings_of_a_producer_are_returned_complete(tmp_path: Path) -> None:
    async with streaming(tmp_path) as (place, stream):
        given = producer("Orders")
        given.user_agent.version = "5.9"
        reply = await stream.settle(given)
        settings = reply.settings
        assert reply.status.code == Code.OK
        assert (settings.client_type, settings.user_agent.version) == (1, "5.9")
        assert settings.publishing.max_body_size == 4 * 1024 * 1024
        assert settings.publishing.validate_message_type
        assert settings.backoff_policy.max_attempts == 3
        assert settings.backoff_policy.exponential_backoff.multiplier == 2
        assert settings.HasField("metric")
        await eventually(lambda: place.broker.tables.producers.group("Orders"))


async def test_settings_of_a_consumer_follow_its_group_and_it_is_a_member_until_the_stream_ends(tmp_path: Path) -> None:
    async with streaming(tmp_path) as (place, stream):
        await place.broker.tables.groups.update(
            SubscriptionGroupConfig(group_name="Group", retry_max_times=4, consume_message_orderly=True)
        )
        reply = await stream.settle(consumer("Group", "Orders", "a || b"))
        settings = reply.settings
        assert (settings.subscription.fifo, settings.subscription.receive_batch_size) == (True, 32)
        assert settings.backoff_policy.max_attempts == 5
        assert [each.seconds for each in settings.backoff_policy.customized_backoff.next][:5] == [1, 5, 10, 30, 60]
        consumers = place.broker.tables.consumers
        await eventually(lambda: consumers.find_group("Group"))
        assert list(consumers.client_ids("Group")) == ["test@1"]
        await place.peer.call("Heartbeat", new("HeartbeatRequest", group=resource("Group"), client_type=2))
        stream.peer.say(stream.id, b"", ends=True)
        stream.peer.send_raw(b"\0\0\0\0\1" + stream.id.to_bytes(4, "big"))  # an empty frame that ends the stream
        await eventually(lambda: consumers.find_group("Group") is None)
        assert not len(place.port.service.sessions)


async def test_a_client_that_says_goodbye_leaves_its_group_at_once(tmp_path: Path) -> None:
    async with streaming(tmp_path) as (place, stream):
        await stream.settle(consumer("Group", "Orders"))
        await eventually(lambda: place.broker.tables.consumers.find_group("Group"))
        reply = await place.peer.call(
            "NotifyClientTermination", new("NotifyClientTerminationRequest", group=resource("Group"))
        )
        assert reply.status.code == Code.OK
        await eventually(lambda: place.broker.tables.consumers.find_group("Group") is None)


async def test_settings_of_no_kind_end_the_stream(tmp_path: Path) -> None:
    async with streaming(tmp_path) as (_, stream):
        reply = await stream.settle(new("Settings"))
        assert reply.status.code == Code.UNRECOGNIZED_CLIENT_TYPE
        await within(stream.reply.ended.wait())
        assert stream.reply.status == 3


async def test_a_heartbeat_before_settings_is_served(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        reply = await place.peer.call("Heartbeat", new("HeartbeatRequest", client_type=1))
        assert reply.status.code == Code.OK


def end_request(transaction_id: str, resolution: int, source: int = 1) -> Any:
    request = new("EndTransactionRequest", topic=resource("Orders"), message_id="id-0", source=source)
    request.transaction_id, request.resolution = transaction_id, resolution
    return request


async def test_a_transaction_that_is_committed_is_delivered_and_one_rolled_back_is_not(tmp_path: Path) -> None:
    async with streaming(tmp_path) as (place, _):
        ids = []
        for number in range(2):
            half = message("Orders", b"%d" % number, number, message_type=4)
            reply = await place.peer.call("SendMessage", send_request(half))
            ids.append(reply.entries[0].transaction_id)
        reader = place.broker.store.reader
        assert reader.max_offset("Orders", 0) == 0
        for transaction_id, resolution in zip(ids, (2, 1), strict=True):
            reply = await place.peer.call("EndTransaction", end_request(transaction_id, resolution))
            assert reply.status.code == Code.OK
        (got,) = await place.receive("Orders", "Group")
        assert got.body == b"1"
        for damaged in ("", "x", ids[0][:-8], "djEgYSBiIGMgZA=="):
            reply = await place.peer.call("EndTransaction", end_request(damaged, 1))
            assert reply.status.code == Code.INVALID_TRANSACTION_ID, damaged


async def test_a_transaction_of_another_topic_is_not_ended(tmp_path: Path) -> None:
    async with streaming(tmp_path) as (place, _):
        await place.create_topic("Other")
        reply = await place.peer.call("SendMessage", send_request(message("Orders", message_type=4)))
        request = end_request(reply.entries[0].transaction_id, 1)
        request.topic.name = "Other"
        assert (await place.peer.call("EndTransaction", request)).status.code != Code.OK
        assert place.broker.store.reader.max_offset("Orders", 0) == 0


async def test_an_open_transaction_is_checked_on_the_stream_of_a_producer_of_the_topic(tmp_path: Path) -> None:
    quick = {"transaction_timeout_ms": 1, "transaction_check_interval_ms": 50}
    async with streaming(tmp_path, **quick) as (place, stream):
        await stream.settle(producer("Orders"))
        half = message("Orders", b"half", message_type=4)
        half.system_properties.ClearField("born_timestamp")  # an old one is given up, not checked
        await place.peer.call("SendMessage", send_request(half))
        command = await stream.reply.next()
        check = command.recover_orphaned_transaction_command
        assert (check.message.body, check.message.topic.name) == (b"half", "Orders")
        assert check.message.system_properties.message_id == "id-0"
        reply = await place.peer.call("EndTransaction", end_request(check.transaction_id, 1, source=2))
        assert reply.status.code == Code.OK
        (got,) = await place.receive("Orders", "Group")
        assert got.body == b"half"


async def test_an_operator_gets_the_stacks_of_a_client_and_lets_it_verify_a_message(tmp_path: Path) -> None:
    async with streaming(tmp_path) as (place, stream):
        await stream.settle(consumer("Group", "Orders"))
        await eventually(lambda: place.broker.tables.consumers.find_group("Group"))
        calls = place.broker.services.client_calls
        header = GetConsumerRunningInfoHeader(consumer_group="Group", client_id="test@1", jstack_enable=True)
        asked = asyncio.create_task(calls.forward(RequestCode.GET_CONSUMER_RUNNING_INFO, "Group", "test@1", header))
        command = await stream.reply.next()
        answer = new("TelemetryCommand")
        answer.thread_stack_trace.nonce = command.print_thread_stack_trace_command.nonce
        answer.thread_stack_trace.thread_stack_trace = "main at line 1"
        stream.say(answer)
        told = await asked
        assert decode_body(bytes(told.body), ConsumerRunningInfo).jstack == "main at line 1"  # type: ignore[arg-type]
        await place.peer.call("SendMessage", send_request(message("Orders", b"verify me")))
        record = bytes(place.broker.store.queries.record(0) or b"")
        asked = asyncio.create_task(
            calls.forward(RequestCode.CONSUME_MESSAGE_DIRECTLY, "Group", "test@1", header, record)
        )
        command = await stream.reply.next()
        assert command.verify_message_command.message.body == b"verify me"
        answer = new("TelemetryCommand")
        answer.verify_message_result.nonce = command.verify_message_command.nonce
        answer.status.code = 60000
        stream.say(answer)
        told = await asked
        assert told.code == ResponseCode.SUCCESS
        result = decode_body(bytes(told.body), ConsumeMessageDirectlyResult)  # type: ignore[arg-type]
        assert result.consume_result == "CR_LATER"


async def test_messages_of_a_push_consumer_are_renewed_and_free_soon_after_it_is_gone(tmp_path: Path) -> None:
    async with streaming(tmp_path) as (place, stream):
        await stream.settle(consumer("Group", "Orders"))
        for number in range(2):
            await place.peer.call("SendMessage", send_request(message("Orders", number=number)))
        request = receive_request("Orders", "Group", auto_renew=True)
        parts = await place.peer.replies_to("ReceiveMessage", request)
        first, second = [part.message.system_properties for part in parts if part.HasField("message")]
        renewals = place.port.service.renewals
        assert len(renewals) == 2
        renewals.now_ms = lambda: place.broker.now_ms() + 50_000  # ten seconds before the end
        before = after = first.receipt_handle
        while after == before:  # handles carry milliseconds
            await renewals.renew()
            renewed = renewals.newest("test@1", before)
            assert renewed is not None
            after = renewed.encode()
            await asyncio.sleep(0.001)
        acked = await place.peer.call("AckMessage", ack_request("Orders", "Group", first.receipt_handle))
        assert acked.status.code == Code.OK
        assert len(renewals) == 1
        other = await GrpcPeer.open(place.address)
        await place.peer.close()
        request = receive_request("Orders", "Group")
        reply = other.call_later("ReceiveMessage", request)
        assert (await reply.next()).status.code == Code.OK
        again = (await reply.next()).message.system_properties
        assert (again.message_id, again.delivery_attempt) == (second.message_id, 2)
        await other.close()
