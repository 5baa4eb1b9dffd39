"""Commit, roll back, unknown; and everything that a producer may say wrongly."""

import pytest

from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import PutStatus
from hanabi.wire.codes import ResponseCode
from hanabi.wire.headers.transaction import EndTransactionHeader
from hanabi.wire.message import sysflag
from hanabi.wire.message.properties import decode_properties
from hanabi.wire.system_names import HALF_TOPIC, OP_HALF_TOPIC
from tests.broker.forged import BODY_AT, forged_record
from tests.broker.transactions.world import BORN_HOST, COMMIT, GROUP, QUEUE_ID, ROLLBACK, TOPIC, UNKNOWN, World
from tests.store.stores import read_queue


def test_nobody_sees_a_message_before_its_transaction_is_committed(world: World) -> None:
    half = world.send(b"one")
    assert world.bodies() == []
    assert world.end(half, COMMIT).code == ResponseCode.SUCCESS
    assert world.bodies() == [b"one"]
    assert world.ops() == [b"0"]


def test_a_committed_message_is_what_was_sent(world: World) -> None:
    world.send(b"before", key="K0")
    half = world.send(b"one", user="x")
    sent = world.message(b"one", {})
    world.end(half, COMMIT)
    (message,) = world.delivered()
    assert (message.body, message.topic, message.queue_id) == (b"one", TOPIC, QUEUE_ID)
    assert (message.flag, message.reconsume_times) == (sent.flag, sent.reconsume_times)
    assert message.sys_flag == sysflag.TRANSACTION_COMMIT | sysflag.MULTI_TAGS
    assert message.prepared_offset == half.log_offset
    assert (message.born_timestamp_ms, message.born_host) == (world.clock.ms, BORN_HOST)
    properties = decode_properties(message.properties)
    assert properties.items() >= {"TAGS": "A", "UNIQ_KEY": "K1", "PGROUP": GROUP, "user": "x"}.items()


def test_a_message_that_was_rolled_back_is_never_seen(world: World) -> None:
    half = world.send()
    assert world.end(half, ROLLBACK).code == ResponseCode.SUCCESS
    assert world.bodies() == []
    assert world.ops() == [b"0"]


def test_unknown_changes_nothing(world: World) -> None:
    half = world.send()
    assert world.end(half, UNKNOWN).code == ResponseCode.SUCCESS
    assert world.bodies() == world.ops() == []
    world.end(half, COMMIT)
    assert world.bodies() == [b"hello"]


@pytest.mark.parametrize("how", [sysflag.TRANSACTION_PREPARED, 1, -8, 2**31 - 1])
def test_an_end_that_is_none_is_refused(world: World, how: int) -> None:
    reply = world.end(world.send(), how)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert world.bodies() == world.ops() == []


@pytest.mark.parametrize("how", [COMMIT, ROLLBACK])
class TestForged:
    """Ends that do not fit the half message, with Apache's codes and remarks."""

    def refused(self, world: World, how: int, remark: str, **changes: object) -> None:
        world.send(b"other", key="K0")
        half = world.send()
        reply = world.end(half, how, **changes)  # type: ignore[arg-type]
        assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, remark)
        assert world.bodies() == world.ops() == []
        assert world.end(half, how).code == ResponseCode.SUCCESS

    def test_a_group_of_others(self, world: World, how: int) -> None:
        self.refused(world, how, "The producer group wrong", group="thieves")

    def test_another_queue_offset(self, world: World, how: int) -> None:
        self.refused(world, how, "The transaction state table offset wrong", tran_state_table_offset=0)

    def test_another_id(self, world: World, how: int) -> None:
        self.refused(world, how, "The message id wrong", key="K0")

    @pytest.mark.parametrize("log_offset", [-1, 1, 2**62])
    def test_a_place_where_no_message_begins(self, world: World, how: int, log_offset: int) -> None:
        self.refused(world, how, "Find prepared transaction message failed", commit_log_offset=log_offset)


def test_a_message_of_another_topic_cannot_be_ended(world: World) -> None:
    plain = PendingMessage(TOPIC, QUEUE_ID, b"plain", b"PGROUP\x01pg\x02REAL_TOPIC\x01X", 1, BORN_HOST, BORN_HOST)
    place = world.intake.put(plain).appended[0]
    reply = world.end(place, COMMIT)
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed")
    assert world.bodies() == [b"plain"]


def test_a_half_message_without_a_group_cannot_be_ended(world: World) -> None:
    put = world.transactions.put_half(world.message(b"x", {"UNIQ_KEY": "K1"}))
    assert world.end(put.appended[0], COMMIT).remark == "The producer group wrong"


def test_the_broker_s_own_id_and_no_id_are_ids_too(world: World) -> None:
    for half in (world.send(), world.send()):
        assert world.end(half, COMMIT, key=half.offset_message_id).code == ResponseCode.SUCCESS
    assert world.end(world.send(key=None), COMMIT, key="whatever").code == ResponseCode.SUCCESS
    assert world.end(world.send(), COMMIT, key="").code == ResponseCode.SUCCESS


def test_to_end_it_twice_makes_no_second_message(world: World) -> None:
    half = world.send()
    for _ in range(3):
        assert world.end(half, COMMIT).code == ResponseCode.SUCCESS
    assert world.bodies() == [b"hello"]
    assert world.ops() == [b"0"]


def test_what_was_said_first_counts(world: World) -> None:
    half = world.send()
    world.end(half, ROLLBACK)
    reply = world.end(half, COMMIT)
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "The transaction was rolled back already")
    other = world.send(b"other", key="K2")
    world.end(other, COMMIT, key="K2")
    reply = world.end(other, ROLLBACK, key="K2")
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "The transaction was committed already")
    assert world.bodies() == [b"other"]


def test_messages_without_a_unique_key_are_ended_too(world: World) -> None:
    half = world.send(key=None)
    assert world.end(half, COMMIT, key="").code == ResponseCode.SUCCESS
    assert world.bodies() == [b"hello"]


class TestStoreRefuses:
    """The store takes no more. Nothing is half done."""

    CASES = (
        (PutStatus.SERVICE_NOT_AVAILABLE, ResponseCode.SERVICE_NOT_AVAILABLE, "Service not available now."),
        (PutStatus.CREATE_MAPPED_FILE_FAILED, ResponseCode.SYSTEM_ERROR, "Create mapped file failed."),
        (PutStatus.UNKNOWN_ERROR, ResponseCode.SYSTEM_ERROR, "UNKNOWN_ERROR"),
        (PutStatus.OS_PAGECACHE_BUSY, ResponseCode.SYSTEM_ERROR, "OS page cache busy, please try another machine"),
        (
            PutStatus.PROPERTIES_SIZE_EXCEEDED,
            ResponseCode.MESSAGE_ILLEGAL,
            "The message is illegal, maybe msg body or properties length not matched. msg body length limit 4194304B, "
            "msg properties length limit 32KB.",
        ),
    )

    @pytest.mark.parametrize(("status", "code", "remark"), CASES)
    def test_a_commit_is_answered_with_apache_s_code_and_can_be_tried_again(
        self, world: World, status: PutStatus, code: int, remark: str
    ) -> None:
        half = world.send()
        with world.intake.closed(status):
            reply = world.end(half, COMMIT)
            assert (reply.code, reply.remark) == (code, remark)
        world.end(half, COMMIT)
        assert world.bodies() == [b"hello"]

    def test_a_rollback_can_be_tried_again(self, world: World) -> None:
        half = world.send()
        with world.intake.closed():
            assert world.end(half, ROLLBACK).code == ResponseCode.SYSTEM_ERROR
        assert world.end(half, ROLLBACK).code == ResponseCode.SUCCESS
        assert world.ops() == [b"0"]

    def test_a_commit_whose_op_message_finds_no_room_is_a_commit(self, world: World) -> None:
        half = world.send()
        with world.intake.closed(topic=OP_HALF_TOPIC):
            assert world.end(half, COMMIT).code == ResponseCode.SUCCESS
        assert world.end(half, COMMIT).code == ResponseCode.SUCCESS
        assert world.check(after_ms=60_000) == []
        assert world.bodies() == [b"hello"]


def test_an_end_needs_no_field_that_old_clients_do_not_send(world: World) -> None:
    half = world.send()
    header = EndTransactionHeader(
        producer_group=GROUP,
        tran_state_table_offset=half.queue_offset,
        commit_log_offset=half.log_offset,
        commit_or_rollback=COMMIT,
        msg_id="K1",
    )
    assert world.transactions.end(header).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("before", [COMMIT, ROLLBACK])
def test_a_queue_that_begins_at_0_again_has_transactions_of_its_own(world: World, before: int) -> None:
    # An administrator's 306 or 316, of Apache's broker or an older one of ours, deletes the queue of half messages.
    assert world.end(world.send(b"old"), before).code == ResponseCode.SUCCESS
    world.store.delete_topic(HALF_TOPIC)
    half = world.send(b"new", key="K2")
    assert half.queue_offset == 0
    assert world.end(half, COMMIT, key="K2").code == ResponseCode.SUCCESS
    assert world.bodies()[-1:] == [b"new"]


@pytest.mark.parametrize(("first", "second"), [(COMMIT, ROLLBACK), (ROLLBACK, COMMIT)])
def test_after_a_restart_the_contrary_of_what_was_said_first_is_refused_too(
    world: World, first: int, second: int
) -> None:
    half = world.send()
    world.end(half, first)
    world.restart()
    for _ in world.transactions.check():
        pass
    before = world.bodies()
    assert world.end(half, second).code == ResponseCode.SYSTEM_ERROR
    assert world.end(half, first).code == ResponseCode.SUCCESS
    assert world.bodies() == before


@pytest.mark.parametrize("how", [COMMIT, ROLLBACK])
def test_a_half_message_in_the_body_of_another_message_is_none(world: World, how: int) -> None:
    world.end(world.send(), COMMIT)
    end = world.store.max_log_offset
    names = {"PGROUP": GROUP, "REAL_TOPIC": "Closed", "REAL_QID": "0", "UNIQ_KEY": "K9"}
    body = forged_record(end, HALF_TOPIC, names, queue_offset=1)
    world.store.put(PendingMessage("Other", 0, body, b"", world.clock.ms, BORN_HOST, BORN_HOST))
    assert world.store.queries.record(end + BODY_AT) is not None, "it is not what an attacker would send"
    header = EndTransactionHeader(
        producer_group=GROUP,
        tran_state_table_offset=1,
        commit_log_offset=end + BODY_AT,
        commit_or_rollback=how,
        msg_id="K9",
    )
    reply = world.transactions.end(header)
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed")
    assert read_queue(world.store, "Closed") == []
    assert world.ops() == [b"0"]
