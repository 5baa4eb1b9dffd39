"""Calls of the gRPC API over real sockets, each with the status of its contract."""

import asyncio
import gzip
import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hanabi.grpc.proto.numbers import Code, MessageType, Permission
from hanabi.grpc.rules.handles import read_handle
from hanabi.testing.waiting import eventually
from hanabi.wire.bodies.groups import SubscriptionGroupConfig
from hanabi.wire.bodies.topics import TopicConfig
from tests.grpc.peers import (
    Place,
    ack_request,
    grpc_broker,
    message,
    new,
    receive_request,
    resource,
    send_request,
)

MIB = 1024 * 1024


async def sent(place: Place, *messages: Any) -> Any:
    return await place.peer.call("SendMessage", send_request(*messages))


async def test_a_message_is_received_as_it_was_sent_and_acknowledged_once(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        topic = await place.create_topic("Orders")
        out = message(topic, b"paid", tag="t", keys=["k1", "k2"], trace_context="trace", born_host="client-1")
        out.user_properties["colour"] = "blue"
        reply = await sent(place, out)
        assert reply.status.code == Code.OK
        assert reply.entries[0].message_id == "id-0"
        (got,) = await place.receive(topic, "Group")
        system = got.system_properties
        assert (got.body, got.topic.name, dict(got.user_properties)) == (b"paid", topic, {"colour": "blue"})
        assert (system.message_id, system.tag, list(system.keys)) == ("id-0", "t", ["k1", "k2"])
        assert (system.trace_context, system.born_host, system.delivery_attempt) == ("trace", "client-1", 1)
        assert system.born_timestamp.seconds == 1_700_000_000
        assert system.message_type == MessageType.NORMAL
        digest = hashlib.sha1(b"paid", usedforsecurity=False).hexdigest().upper()
        assert (system.body_digest.type, system.body_digest.checksum) == (3, digest)
        for _ in range(2):  # a second acknowledgement is OK
            acked = await place.peer.call("AckMessage", ack_request(topic, "Group", system.receipt_handle))
            assert acked.status.code == Code.OK
            assert acked.entries[0].status.code == Code.OK
        flights = place.broker.services.pop.flights.find(topic, "Group", got.system_properties.queue_id)
        assert flights is not None
        assert not flights.flights


async def test_a_receive_that_is_held_gets_the_message_when_it_arrives(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        topic = await place.create_topic("Orders")
        reply = place.peer.call_later("ReceiveMessage", receive_request(topic, "Group"))
        await eventually(lambda: len(place.broker.tables.held_pops) == 1)
        await sent(place, message(topic))
        assert (await reply.next()).status.code == Code.OK
        assert (await reply.next()).message.body == b"hello"
        assert (await reply.next()).HasField("delivery_timestamp")


async def test_a_client_that_is_gone_leaves_no_held_receive(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        topic = await place.create_topic("Orders")
        place.peer.call_later("ReceiveMessage", receive_request(topic, "Group"))
        await eventually(lambda: len(place.broker.tables.held_pops) == 1)
        await place.peer.close()
        await eventually(lambda: not len(place.broker.tables.held_pops))
        await eventually(lambda: not place.port.server.connections)
        assert place.port.server.memory.used == 0


async def test_the_route_has_each_queue_with_the_endpoint_that_the_client_used(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        await place.create_topic("Fifo", queues=3, message_type="FIFO")
        request = new("QueryRouteRequest", topic=resource("Fifo"))
        request.endpoints.scheme = 3
        request.endpoints.addresses.add(host="mq.example.com", port=443)
        reply = await place.peer.call("QueryRoute", request)
        assert [queue.id for queue in reply.message_queues] == [0, 1, 2]
        queue = reply.message_queues[0]
        assert (queue.permission, list(queue.accept_message_types)) == (Permission.READ_WRITE, [MessageType.FIFO])
        assert (queue.broker.name, queue.broker.endpoints) == ("broker-a", request.endpoints)
        plain = await place.peer.call("QueryRoute", new("QueryRouteRequest", topic=resource("Fifo")))
        address = plain.message_queues[0].broker.endpoints.addresses[0]
        assert (address.host, address.port) == place.address


async def test_an_assignment_is_the_broker_and_of_an_ordered_group_each_queue(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        topic = await place.create_topic("Orders", queues=3)
        await place.broker.tables.groups.update(
            SubscriptionGroupConfig(group_name="Ordered", consume_message_orderly=True)
        )
        for group, ids in (("Plain", [-1]), ("Ordered", [0, 1, 2])):
            request = new("QueryAssignmentRequest", topic=resource(topic), group=resource(group))
            reply = await place.peer.call("QueryAssignment", request)
            assert [each.message_queue.id for each in reply.assignments] == ids


LIMITS: dict[str, tuple[Callable[[Any], object], Code]] = {
    "a tag": (lambda m: m.system_properties.MergeFrom(new("SystemProperties", tag="a|b")), Code.ILLEGAL_MESSAGE_TAG),
    "a key": (lambda m: m.system_properties.keys.append(" "), Code.ILLEGAL_MESSAGE_KEY),
    "a group": (
        lambda m: m.system_properties.MergeFrom(new("SystemProperties", message_group="g" * 64)),
        Code.ILLEGAL_MESSAGE_GROUP,
    ),
    "a reserved name": (lambda m: m.user_properties.update({"TAGS": "x"}), Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
    "a control character": (lambda m: m.user_properties.update({"a": "\x01"}), Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
    "many properties": (
        lambda m: m.user_properties.update({f"p{n}": "x" for n in range(129)}),
        Code.MESSAGE_PROPERTIES_TOO_LARGE,
    ),
    "long properties": (
        lambda m: m.user_properties.update({"p": "x" * 16 * 1024}),
        Code.MESSAGE_PROPERTIES_TOO_LARGE,
    ),
    "no id": (lambda m: setattr(m.system_properties, "message_id", " "), Code.ILLEGAL_MESSAGE_ID),
    "no body": (lambda m: setattr(m, "body", b""), Code.MESSAGE_BODY_EMPTY),
    "a long body": (lambda m: setattr(m, "body", bytes(4 * MIB + 1)), Code.MESSAGE_BODY_TOO_LARGE),
    "a far delivery": (
        lambda m: setattr(m.system_properties.delivery_timestamp, "seconds", 4_000_000_000),
        Code.ILLEGAL_DELIVERY_TIME,
    ),
    "no gzip": (lambda m: setattr(m.system_properties, "body_encoding", 2), Code.BAD_REQUEST),
    "no topic": (lambda m: setattr(m.topic, "name", ""), Code.ILLEGAL_TOPIC),
    "an unknown topic": (lambda m: setattr(m.topic, "name", "Other"), Code.TOPIC_NOT_FOUND),
}


async def test_each_limit_of_a_message_is_refused_with_its_code_and_nothing_is_stored(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        topic = await place.create_topic("Orders", queues=1)
        for name, (spoil, code) in LIMITS.items():
            spoiled = message(topic)
            spoil(spoiled)
            reply = await sent(place, spoiled)
            assert reply.status.code == code, name
        assert place.broker.store.reader.max_offset(topic, 0) == 0
        at_limit = message(topic, message_group="g" * 63)
        at_limit.user_properties.update({f"{n:03d}": "x" * 124 for n in range(128)})
        at_limit.user_properties["000"] = "x" * (16 * 1024 - 127 * 127 - 3 - 63 - len("__SHARDINGKEY"))
        assert (await sent(place, at_limit)).status.code == Code.OK
        at_limit.user_properties["000"] += "x"
        assert (await sent(place, at_limit)).status.code == Code.MESSAGE_PROPERTIES_TOO_LARGE


async def test_a_body_in_gzip_is_stored_as_it_was_before(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        topic = await place.create_topic("Orders")
        await sent(place, message(topic, gzip.compress(b"text" * 100), body_encoding=2))
        (got,) = await place.receive(topic, "Group")
        assert (got.body, got.system_properties.body_encoding) == (b"text" * 100, 1)


@pytest.mark.parametrize("kind", ["NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", None])
async def test_a_topic_takes_messages_of_its_type_alone(tmp_path: Path, kind: str | None) -> None:
    async with grpc_broker(tmp_path) as place:
        topic = await place.create_topic("Orders", message_type=kind)
        delayed = message(topic)
        delayed.system_properties.delivery_timestamp.seconds = 1
        each = {
            "NORMAL": message(topic),
            "FIFO": message(topic, message_group="g"),
            "DELAY": delayed,
            "TRANSACTION": message(topic, message_type=4),
        }
        for name, made in each.items():
            reply = await sent(place, made)
            accepted = kind in (None, "MIXED", name)
            assert reply.status.code == (Code.OK if accepted else Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE), name


async def test_a_call_without_a_client_id_is_refused(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        topic = await place.create_topic("Orders")
        reply = await place.peer.call("SendMessage", send_request(message(topic)), {"x-mq-client-id": ""})
        assert reply.status.code == Code.CLIENT_ID_REQUIRED


async def test_handles_that_are_forged_damaged_or_of_another_broker_are_refused(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        topic = await place.create_topic("Orders")
        secret = await place.create_topic("Secret")
        await sent(place, message(topic))
        await sent(place, message(secret, b"secret"))
        (got,) = await place.receive(topic, "Group")
        (other,) = await place.receive(secret, "Other")
        handle = got.system_properties.receipt_handle
        words = handle.split(" ")
        far = [*words[:7], "99", words[8]]
        stranger = [*words[:5], "broker-z", *words[6:]]
        expired = ["0", "1", "1", *words[3:]]
        for bad in ("", "x", " ".join(words[:6]), " ".join(far), " ".join(expired), handle.replace("0", "z")):
            reply = await place.peer.call("AckMessage", ack_request(topic, "Group", bad))
            assert reply.status.code == Code.INVALID_RECEIPT_HANDLE, bad
        reply = await place.peer.call("AckMessage", ack_request(topic, "Group", " ".join(stranger)))
        assert reply.status.code != Code.OK
        copied = [*words[:8], str(read_handle(other.system_properties.receipt_handle).log_offset)]
        request = new("ForwardMessageToDeadLetterQueueRequest", topic=resource(topic), group=resource("Group"))
        request.receipt_handle = " ".join(copied)
        reply = await place.peer.call("ForwardMessageToDeadLetterQueue", request)
        assert reply.status.code == Code.INVALID_RECEIPT_HANDLE
        mixed = await place.peer.call("AckMessage", ack_request(topic, "Group", handle, "x"))
        assert mixed.status.code == Code.MULTIPLE_RESULTS
        assert [entry.status.code for entry in mixed.entries] == [Code.OK, Code.INVALID_RECEIPT_HANDLE]


async def test_times_that_are_out_of_range_are_refused(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        topic = await place.create_topic("Orders")
        request = receive_request(topic, "Group")
        for seconds in (9, 12 * 3600 + 1):
            request.invisible_duration.seconds = seconds
            (part,) = await place.peer.replies_to("ReceiveMessage", request)
            assert part.status.code == Code.ILLEGAL_INVISIBLE_TIME
        request.invisible_duration.seconds = 10
        (part,) = await place.peer.replies_to("ReceiveMessage", request, {"grpc-timeout": "4S"})
        assert part.status.code == Code.ILLEGAL_POLLING_TIME


async def test_a_changed_message_is_hidden_anew_and_its_new_handle_acknowledges_it(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        topic = await place.create_topic("Orders")
        await sent(place, message(topic))
        (got,) = await place.receive(topic, "Group")
        request = new("ChangeInvisibleDurationRequest", topic=resource(topic), group=resource("Group"))
        request.receipt_handle = got.system_properties.receipt_handle
        request.invisible_duration.nanos = 100_000_000
        reply = await place.peer.call("ChangeInvisibleDuration", request)
        assert reply.status.code == Code.OK
        (again,) = await place.receive(topic, "Group")
        assert (again.system_properties.message_id, again.system_properties.delivery_attempt) == ("id-0", 2)
        assert again.topic.name == topic
        old = await place.peer.call("AckMessage", ack_request(topic, "Group", reply.receipt_handle))
        assert old.status.code == Code.INVALID_RECEIPT_HANDLE
        acked = await place.peer.call("AckMessage", ack_request(topic, "Group", again.system_properties.receipt_handle))
        assert acked.status.code == Code.OK


async def test_a_message_that_always_fails_is_a_dead_letter_after_its_attempts(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        topic = await place.create_topic("Orders", queues=1)
        await place.broker.tables.groups.update(SubscriptionGroupConfig(group_name="Group", retry_max_times=1))
        await sent(place, message(topic))
        change = new("ChangeInvisibleDurationRequest", topic=resource(topic), group=resource("Group"))
        for attempt in (1, 2):
            (got,) = await place.receive(topic, "Group")
            assert got.system_properties.delivery_attempt == attempt
            change.receipt_handle = got.system_properties.receipt_handle
            change.invisible_duration.nanos = 10_000_000
            await place.peer.call("ChangeInvisibleDuration", change)
        dead = place.broker.store.reader
        receiving = asyncio.create_task(place.receive(topic, "Group"))
        await eventually(lambda: dead.max_offset("%DLQ%Group", 0) == 1)
        assert await receiving == []


async def test_a_message_that_is_forwarded_is_a_dead_letter_and_not_delivered_again(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        topic = await place.create_topic("Orders", queues=1)
        await sent(place, message(topic))
        (got,) = await place.receive(topic, "Group")
        request = new("ForwardMessageToDeadLetterQueueRequest", topic=resource(topic), group=resource("Group"))
        request.receipt_handle = got.system_properties.receipt_handle
        reply = await place.peer.call("ForwardMessageToDeadLetterQueue", request)
        assert reply.status.code == Code.OK
        assert place.broker.store.reader.max_offset("%DLQ%Group", 0) == 1
        await place.broker.tables.topics.update(
            TopicConfig(topic_name="%DLQ%Group", read_queue_nums=1, write_queue_nums=1, perm=6)
        )
        (letter,) = await place.receive("%DLQ%Group", "Reader")
        assert letter.body == b"hello"
        assert not len(place.broker.services.pop.flights.find(topic, "Group", 0).flights)  # type: ignore[union-attr]


async def test_messages_of_one_group_lie_in_one_queue_and_the_next_batch_waits_for_the_first(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        topic = await place.create_topic("Fifo", message_type="FIFO")
        await place.broker.tables.groups.update(
            SubscriptionGroupConfig(group_name="Ordered", consume_message_orderly=True)
        )
        for number in range(4):
            await sent(place, message(topic, b"%d" % number, number, message_group="one"))
        (first, second) = await place.receive(topic, "Ordered", batch_size=2)
        assert [first.body, second.body] == [b"0", b"1"]
        assert first.system_properties.message_group == "one"
        blocked = place.peer.call_later("ReceiveMessage", receive_request(topic, "Ordered"))
        await eventually(lambda: len(place.broker.tables.held_pops) == 1)
        handles = [each.system_properties.receipt_handle for each in (first, second)]
        assert (await place.peer.call("AckMessage", ack_request(topic, "Ordered", *handles))).status.code == Code.OK
        await blocked.next()
        assert [(await blocked.next()).message.body for _ in range(2)] == [b"2", b"3"]


async def test_a_filter_by_tag_and_one_by_sql_choose_messages(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        topic = await place.create_topic("Orders")
        for number in range(4):
            made = message(topic, b"%d" % number, number, tag="even" if number % 2 == 0 else "odd")
            made.user_properties["n"] = str(number)
            await sent(place, made)
        request = receive_request(topic, "ByTag")
        request.filter_expression.expression = "odd"
        parts = await place.peer.replies_to("ReceiveMessage", request)
        assert sorted(part.message.body for part in parts if part.HasField("message")) == [b"1", b"3"]
        request = receive_request(topic, "BySql")
        request.filter_expression.type, request.filter_expression.expression = 2, "n > ("
        (part,) = await place.peer.replies_to("ReceiveMessage", request)
        assert part.status.code == Code.ILLEGAL_FILTER_EXPRESSION


async def test_a_delayed_message_that_is_recalled_never_comes_and_a_forged_handle_is_refused(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as place:
        topic = await place.create_topic("Orders", message_type="DELAY")
        other = await place.create_topic("Other", message_type="DELAY")
        due_s = int(time.time()) + 2
        handles = []
        for number, body in enumerate((b"taken back", b"kept")):
            delayed = message(topic, body, number)
            delayed.system_properties.delivery_timestamp.seconds = due_s
            reply = await sent(place, delayed)
            assert reply.status.code == Code.OK
            handles.append(reply.entries[0].recall_handle)

        async def recall(of: str, handle: str) -> Any:
            request = new("RecallMessageRequest", topic=resource(of), recall_handle=handle)
            return await place.peer.call("RecallMessage", request)

        recalled = await recall(topic, handles[0])
        assert (recalled.status.code, recalled.message_id) == (Code.OK, "id-0")
        for of, handle in ((topic, "forged"), (topic, ""), (other, handles[1]), ("None", handles[1])):
            assert (await recall(of, handle)).status.code != Code.OK
        found: list[Any] = []
        while not found:
            found = await place.receive(topic, "Group")
        again = receive_request(topic, "Group")
        again.long_polling_timeout.Clear()
        again.long_polling_timeout.seconds = 1
        parts = await place.peer.replies_to("ReceiveMessage", again)
        bodies = [each.body for each in found] + [part.message.body for part in parts if part.HasField("message")]
        assert bodies == [b"kept"]
