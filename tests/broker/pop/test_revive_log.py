"""A store in which Apache's broker left checkpoints of POP: what was not acknowledged there is delivered again."""

import json
from pathlib import Path
from typing import Any

import pytest

from hanabi.broker.pop.checkpoints import GROUP as REVIVE_GROUP
from hanabi.broker.pop.checkpoints import TOPIC_PREFIX, read_ack, read_checkpoint
from hanabi.errors import RemoteProtocolError
from hanabi.store.log.commit_log import PendingMessage
from hanabi.testing.waiting import eventually
from hanabi.wire.bodies.topics import TopicConfig
from hanabi.wire.message.hosts import encode_host
from hanabi.wire.message.properties import format_properties
from tests.broker.popping import BROKER, GROUP, TOPIC, Popper, popping

REVIVE_TOPIC = TOPIC_PREFIX + "DefaultCluster"
HOST = encode_host("127.0.0.1", 10911)
# as 5.3.3 writes them
CHECKPOINT = (
    b'{"bm":0,"bn":"broker-a","c":"billing","d":[0,2],"it":10000,"n":2,"pt":5,"q":1,"ro":0,"so":7,"t":"Orders"}'
)
ACK = b'{"ao":9,"bn":"broker-a","c":"billing","pt":5,"q":1,"so":7,"t":"Orders"}'
BATCH_ACK = b'{"ackOffset":0,"aol":[7,9],"bn":"broker-a","c":"billing","pt":5,"q":1,"so":7,"t":"Orders"}'
LONG = (
    b'{"bitMap":1,"cid":"billing","invisibleTime":10000,"num":3,"popTime":5,"queueId":1,"startOffset":7,'
    b'"topic":"Orders"}'
)
LONG_ACK = b'{"ackOffset":8,"consumerGroup":"billing","popTime":5,"queueId":1,"startOffset":7,"topic":"Orders"}'


def test_records_of_both_forms_are_read() -> None:
    batch = read_checkpoint(CHECKPOINT, 3)
    assert (list(batch.open), batch.revive_ms, batch.revive_offset) == ([7, 9], 10_005, 3)
    assert batch.key == ("Orders", "billing", 1, 7, 5)
    assert read_ack(ACK) == (batch.key, (9,))
    assert read_ack(BATCH_ACK) == (batch.key, (7, 9))
    old = read_checkpoint(LONG, 3)
    assert (old.key, list(old.open)) == (batch.key, [8, 9]), "the first bit says that the first is acknowledged"
    assert read_ack(LONG_ACK) == (batch.key, (8,))


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"{}", b'{"t":"T","c":5}', b'{"t":"T","c":"g","so":-1}', b'{"t":"T","c":"g","so":"x"}'),
        *(b'{"t":"T","c":"g","d":[-1]}', b'{"t":"T","c":"g","d":[%s0]}' % (b"0," * 2_000)),
    ],
)
def test_a_record_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        read_checkpoint(body, 0)


async def leave(peer: Popper, tag: str, deliver_ms: int, **fields: Any) -> None:
    """Store a record of POP as Apache's broker does, for the timer."""
    body = json.dumps({"bn": BROKER, "c": GROUP, "q": 0, "t": TOPIC, **fields}).encode()
    properties = format_properties({"TAGS": tag, "UNIQ_KEY": f"{tag}{fields}", "TIMER_DELIVER_MS": str(deliver_ms)})
    message = PendingMessage(REVIVE_TOPIC, 0, body, properties.encode(), peer.clock(), HOST, HOST)
    assert peer.broker.services.intake.put(message).appended


async def apaches_store(peer: Popper, pop_ms: int) -> None:
    """Six messages, popped for 10 s in two batches; the second, third and fifth are acknowledged."""
    await peer.broker.tables.topics.update(
        TopicConfig(topic_name=REVIVE_TOPIC, read_queue_nums=1, write_queue_nums=1, perm=6)
    )
    await peer.send(b"a", b"b", b"c", b"d", b"e", b"f")
    peer.broker.tables.groups.find(GROUP)
    peer.broker.tables.offsets.commit(GROUP, TOPIC, 0, 6)
    for start, count in ((0, 3), (3, 3)):
        batch = {"so": start, "pt": pop_ms, "it": 10_000, "n": count, "d": list(range(count)), "bm": 0}
        await leave(peer, "ck", pop_ms + 9_000, **batch)
    await leave(peer, "bAck", pop_ms + 10_000, so=0, pt=pop_ms, aol=[1, 2])
    await leave(peer, "ack", pop_ms + 10_000, so=3, pt=pop_ms, ao=4)
    await leave(peer, "ack", pop_ms + 10_000, so=3, pt=pop_ms - 1, ao=5)  # of another pop


async def settled(peer: Popper, count: int) -> None:
    """Wait until *count* messages are taken over."""

    def is_settled() -> bool:
        peer.broker.services.revive_log.tick()
        return peer.broker.services.revive_log.taken_over == count

    await eventually(is_settled)


async def done(peer: Popper) -> None:
    """Wait until the revive group is behind the last record."""

    def is_done() -> bool:
        peer.broker.services.revive_log.tick()
        return peer.broker.tables.offsets.find(REVIVE_GROUP, REVIVE_TOPIC, 0) == 4

    await eventually(is_done)


async def test_what_apaches_consumers_did_not_acknowledge_comes_again(tmp_path: Path) -> None:
    async with popping(tmp_path) as peer:
        await apaches_store(peer, peer.clock())
        assert await peer.bodies() == []
        peer.advance(9.5)
        peer.broker.services.revive_log.tick()
        assert await peer.bodies() == [], "it is not over yet"
        peer.advance(5)
        await settled(peer, 3)
        found = await peer.pop(poll_time=5_000)
        assert sorted(record.body for record, _ in found) == [b"a", b"d", b"f"]
        assert {record.reconsume_times for record, _ in found} == {1}
        await done(peer)


async def test_a_restart_repeats_nothing_that_was_taken_over(tmp_path: Path) -> None:
    async with popping(tmp_path) as peer:
        await apaches_store(peer, peer.clock())
        peer.advance(15)
        await settled(peer, 3)
        await done(peer)
        clock = peer.clock
    async with popping(tmp_path, clock=clock) as peer:
        assert sorted(await peer.bodies(poll_time=5_000)) == [b"a", b"d", b"f"]
        peer.broker.services.revive_log.tick()
        assert peer.broker.services.revive_log.taken_over == 0


async def test_damaged_records_and_those_of_deleted_topics_are_passed_over(tmp_path: Path) -> None:
    async with popping(tmp_path) as peer:
        await leave_damaged(peer)
        peer.advance(15)
        await settled(peer, 1)
        assert await peer.bodies(poll_time=5_000) == [b"a"]


async def leave_damaged(peer: Popper) -> None:
    pop_ms = peer.clock()
    await peer.broker.tables.topics.update(
        TopicConfig(topic_name=REVIVE_TOPIC, read_queue_nums=1, write_queue_nums=1, perm=6)
    )
    await peer.send(b"a")
    peer.broker.tables.offsets.commit(GROUP, TOPIC, 0, 1)
    batch = {"so": 0, "pt": pop_ms, "it": 10_000, "n": 1, "d": [0], "bm": 0}
    await leave(peer, "ck", pop_ms + 9_000, **{**batch, "so": "x"})
    await leave(peer, "ck", pop_ms + 9_000, **{**batch, "t": "Deleted"})
    await leave(peer, "ack", pop_ms + 9_000, **{**batch, "t": 7})
    await leave(peer, "ck", pop_ms + 9_000, **batch)
