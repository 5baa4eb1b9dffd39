"""Batches: one record each, and all of them or none."""

from pathlib import Path

import pytest

from hanabi.broker.handlers.send import BATCH_AT_ONCE
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.message import sysflag
from hanabi.wire.message.batch import BatchMessage, encode_batch
from hanabi.wire.message.message_id import decode_offset_id
from hanabi.wire.message.record import decode_record
from tests.broker.sending import BORN_MS, TOPIC, Taking, header, properties, send, talking, text
from tests.broker.talk import Peer

THREE = [
    BatchMessage(flag=1, body=b"one", properties=b"UNIQ_KEY\x01A1\x02TAGS\x01a"),
    BatchMessage(flag=2, body=b"two", properties=b"UNIQ_KEY\x01A2\x02DELAY\x010\x02"),
    BatchMessage(flag=3, body=b"three", properties=b""),
]


async def send_batch(peer: Peer, body: bytes | list[BatchMessage], **fields: object) -> Command:
    raw = body if isinstance(body, bytes) else encode_batch(body)
    return await peer.ask(RequestCode.SEND_BATCH_MESSAGE, header(batch=True, **fields), raw)


async def test_each_message_of_a_batch_has_a_record_of_its_own(tmp_path: Path) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        await send(peer, queue_id=1)
        shared = text({"UNIQ_KEY": "batch", "WAIT": "true", "SHARED": "s"})
        reply = await send_batch(peer, THREE, queue_id=1, properties=shared, reconsume_times=2)
        assert reply.code == ResponseCode.SUCCESS
        _, *records = taking.records(queue_id=1)
        assert [record.body for record in records] == [b"one", b"two", b"three"]
        assert [record.flag for record in records] == [1, 2, 3]
        assert {record.born_timestamp_ms for record in records} == {BORN_MS}
        assert {record.reconsume_times for record in records} == {2}
        always = {"SHARED": "s", "WAIT": "true", "CLUSTER": "DefaultCluster"}
        assert [properties(record) for record in records] == [
            {"UNIQ_KEY": "A1", "TAGS": "a", **always},
            {"UNIQ_KEY": "A2", "DELAY": "0", **always},
            always,
        ]
        fields = reply.fields()
        ids = [decode_offset_id(one).log_offset for one in fields["msgId"].split(",")]
        assert ids == [record.log_offset for record in records]
        assert (fields["queueId"], fields["queueOffset"]) == ("1", "1")
        assert (fields["MSG_REGION"], fields["TRACE_ON"]) == ("DefaultRegion", "true")


@pytest.mark.parametrize("cut", range(1, len(encode_batch(THREE[2:])), 5))
async def test_of_a_batch_with_a_broken_tail_nothing_is_stored(tmp_path: Path, cut: int) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        reply = await send_batch(peer, encode_batch(THREE)[:-cut])
        assert reply.code == ResponseCode.MESSAGE_ILLEGAL
        assert "nothing of it is stored" in (reply.remark or "")
        assert taking.store.max_log_offset == 0
        assert (await send_batch(peer, THREE)).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("batch", "fields", "why"),
    [
        ([], {}, "a batch without messages"),
        ([*THREE, BatchMessage(0, b"", b"")], {}, "body length is zero"),
        ([*THREE, BatchMessage(0, b"x" * 16_384, b"")], {}, "limit 16384"),
        ([*THREE, BatchMessage(0, b"x", b"DELAY\x013")], {}, "cannot be delayed"),
        ([*THREE, BatchMessage(0, b"x", b"TIMER_DELAY_SEC\x013")], {}, "cannot be delayed"),
        (THREE, {"properties": "DELAY\x012"}, "cannot be delayed"),
        (THREE, {"sys_flag": sysflag.TRANSACTION_PREPARED}, "cannot be part of a batch"),
        (THREE, {"topic": "%RETRY%g"}, "batch request does not support retry group %RETRY%g"),
    ],
)
async def test_a_batch_that_cannot_be_stored_whole_is_refused_whole(
    tmp_path: Path, batch: list[BatchMessage], fields: dict[str, object], why: str
) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        reply = await send_batch(peer, batch, **fields)
        assert reply.code == ResponseCode.MESSAGE_ILLEGAL
        assert why in (reply.remark or "")
        assert reply.fields() == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
        assert taking.store.max_log_offset == 0


async def test_one_message_with_too_many_properties_refuses_the_whole_batch(tmp_path: Path) -> None:
    taking = Taking(tmp_path, message_bytes_max=48 * 1024)
    async with talking(taking) as peer:
        # the cluster's name comes on top of what the client sent
        reply = await send_batch(peer, [*THREE, BatchMessage(0, b"x", b"A\x01" + b"x" * 32_760)])
        assert reply.code == ResponseCode.MESSAGE_ILLEGAL
        assert "msg properties length limit 32KB" in (reply.remark or "")
        assert taking.store.max_log_offset == 0


async def test_a_batch_without_the_mark_of_one_is_a_single_message(tmp_path: Path) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        raw = encode_batch(THREE)
        assert (await send(peer, raw, code=RequestCode.SEND_BATCH_MESSAGE)).code == ResponseCode.SUCCESS
        assert [record.body for record in taking.records()] == [raw]


async def test_a_batch_counts_as_many_messages(tmp_path: Path) -> None:
    taking = Taking(tmp_path)
    async with talking(taking) as peer:
        await send_batch(peer, THREE, queue_id=-1)
        assert taking.stats.store.puts == 3
        assert taking.stats.store.put_bytes == taking.store.max_log_offset
        assert len(taking.records(TOPIC, 3)) == 3


# More messages than are stored in one piece

LONG = [BatchMessage(flag=number, body=b"%d" % number, properties=b"") for number in range(BATCH_AT_ONCE + 300)]


def roomy(root: Path) -> Taking:
    return Taking(root, message_bytes_max=1 << 20, commit_log_segment_bytes=1 << 20, consume_queue_segment_bytes=60_000)


async def test_a_long_batch_is_stored_in_order_and_answered_as_a_short_one(tmp_path: Path) -> None:
    taking = roomy(tmp_path)
    async with talking(taking) as peer:
        reply = await send_batch(peer, LONG, queue_id=1)
        assert reply.code == ResponseCode.SUCCESS
        ids = reply.fields()["msgId"].split(",")
        views = [taking.store.queries.record(decode_offset_id(one).log_offset) for one in ids]
        records = [decode_record(view) for view in views if view is not None]
        assert [record.body for record in records] == [message.body for message in LONG]
        assert [record.queue_offset for record in records] == list(range(len(LONG)))
        assert reply.fields()["queueOffset"] == "0"


@pytest.mark.parametrize(
    "last",
    [
        encode_batch(LONG[:1])[:-1],
        encode_batch([BatchMessage(0, b"later", b"DELAY\x013\x02")]),
        encode_batch([BatchMessage(0, b"", b"")]),
        encode_batch([BatchMessage(0, b"long", b"p\x01" + b"x" * 32_760)]),
    ],
    ids=["broken", "delayed", "empty", "too many properties"],
)
async def test_a_long_batch_with_a_last_message_that_cannot_be_stored_is_refused_whole(
    tmp_path: Path, last: bytes
) -> None:
    taking = roomy(tmp_path)
    async with talking(taking) as peer:
        reply = await send_batch(peer, encode_batch(LONG) + last)
        assert reply.code == ResponseCode.MESSAGE_ILLEGAL
        assert reply.fields()["MSG_REGION"] == "DefaultRegion"
        assert taking.store.max_log_offset == 0
