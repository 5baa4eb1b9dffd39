"""With SYNC_FLUSH the fast path answers as the handlers would, byte for byte, and not before the disk has it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hanabi.broker.fast_path import durable
from hanabi.remoting.connection.dispatch import LateAnswers, Reply, dispatch
from hanabi.store.config import FlushMode
from hanabi.store.files.segment import Segment
from hanabi.wire.codes import HeaderForm, RequestCode, ResponseCode
from hanabi.wire.command import decode_command, encode_reply_head
from hanabi.wire.frame import FrameDecoder, encode_frame
from hanabi.wire.message.batch import BatchMessage, encode_batch
from tests.broker.fast_path.test_sends import FIELDS, SENDER, Side, frame_of, pytestmark

__all__ = ["pytestmark"]

HOUR_MS = 3_600_000
FIRST = 2


def send(number: int = 0, form: HeaderForm = HeaderForm.JSON, **changed: Any) -> bytes:
    request = {"code": 310, "opaque": number, "flag": 0, "version": 401, "form": form, "body": b"%d" % number}
    return frame_of({**request, "fields": FIELDS} | changed)


def batch(number: int, form: HeaderForm) -> bytes:
    parts = [BatchMessage(0, b"%d.%d" % (number, part), FIELDS["i"].encode()) for part in range(3)]
    fields = FIELDS | {"m": "true", "i": "WAIT\x01true"}
    return send(number, form, code=RequestCode.SEND_BATCH_MESSAGE, fields=fields, body=encode_batch(parts))


@asynccontextmanager
async def waiting(root: Path, timeout_ms: int = HOUR_MS) -> AsyncIterator[Side]:
    side = Side(root, flush_mode=FlushMode.SYNC_FLUSH, sync_flush_timeout_ms=timeout_ms)
    side.taking.store.start()
    try:
        for _ in range(FIRST):  # of a queue, and of an index file: these need the handlers
            await by_handlers(side, send())
        yield side
    finally:
        await asyncio.to_thread(side.taking.close)


def put(side: Side, *frames: bytes) -> LateAnswers:
    """Store *frames* on the fast path, all of them."""
    assert side.fast_path is not None
    answers, _, counts = side.fast_path(b"".join(map(encode_frame, frames)), SENDER)
    assert isinstance(answers, LateAnswers)
    assert sum(counts) == len(frames)
    return answers


async def answered(side: Side, frames: list[bytes]) -> tuple[bytes, int]:
    """Return the answers to *frames*, which come in one read; and how many of them took the fast path."""
    answers, taken, left = b"", 0, frames.copy()
    while left:
        assert side.fast_path is not None
        later, _, counts = side.fast_path(b"".join(map(encode_frame, left)), SENDER)
        if isinstance(later, LateAnswers):
            code, fast_answers = await later
            assert code == ResponseCode.SUCCESS
            answers += fast_answers
            taken += sum(counts)
            del left[: sum(counts)]
        else:
            answers += await by_handlers(side, left.pop(0))
    return answers, taken


async def by_handlers(side: Side, frame: bytes) -> bytes:
    command = decode_command(frame)
    answer = dispatch(side.handlers, command, SENDER)
    reply = answer if isinstance(answer, Reply) else await answer
    return encode_reply_head(command, reply.code, reply.remark, reply.fields)


def _flush_after(disk: threading.Event, begun: threading.Event | None = None) -> Callable[[Segment], None]:
    """`Segment.flush` on a disk that waits for a sign."""
    flush = Segment.flush

    def slow(segment: Segment) -> None:
        if begun is not None:
            begun.set()
        assert disk.wait(60)
        flush(segment)

    return slow


@pytest.mark.parametrize("form", HeaderForm)
async def test_what_is_stored_and_answered_is_what_the_handlers_would_and_on_the_disk_by_then(
    tmp_path: Path, form: HeaderForm
) -> None:
    async with waiting(tmp_path / "fast_path") as first, waiting(tmp_path / "handlers") as second:
        taken = 0
        for number in range(0, 40, 4):
            frames = [send(number, form), send(number + 1, form), batch(number + 2, form), send(number + 3, form)]
            answers, count = await answered(first, frames)
            taken += count
            assert first.taking.store.flushed_log_offset == first.taking.store.max_log_offset
            assert answers == b"".join([await by_handlers(second, frame) for frame in frames])
            assert first.written(0) == second.written(0)
        assert taken > 30, "all but the first ones of each index file"


async def test_nothing_is_answered_while_the_disk_works_and_all_of_a_turn_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, synced = threading.Event(), threading.Event()

    async with waiting(tmp_path) as side:
        monkeypatch.setattr("hanabi.store.files.segment.Segment.flush", _flush_after(disk, synced))
        waits = [put(side, send(number)) for number in range(5)]
        assert await asyncio.to_thread(synced.wait, 60)
        await asyncio.sleep(0.05)
        assert not any(each.done() for each in waits)
        disk.set()
        for number, (_, answers) in enumerate(await asyncio.gather(*waits)):
            (answer,) = map(decode_command, FrameDecoder().feed(answers))
            assert (answer.opaque, answer.fields()["queueOffset"]) == (number, str(FIRST + number))


@pytest.mark.parametrize("form", HeaderForm)
async def test_a_disk_that_hangs_is_told_as_by_the_handlers(
    tmp_path: Path, form: HeaderForm, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = threading.Event()
    async with waiting(tmp_path / "fast_path", 1) as first, waiting(tmp_path / "handlers", 1) as second:
        monkeypatch.setattr("hanabi.store.files.segment.Segment.flush", _flush_after(disk))
        frames = [send(1, form), batch(2, form)]
        code, answers = await put(first, *frames)
        assert code == ResponseCode.FLUSH_DISK_TIMEOUT
        assert answers == b"".join([await by_handlers(second, frame) for frame in frames])
        disk.set()


async def test_a_sender_who_does_not_wait_is_left_to_the_handlers(tmp_path: Path) -> None:
    async with waiting(tmp_path) as side:
        assert side.fast_path is not None
        frame = encode_frame(send(fields=FIELDS | {"i": "WAIT\x01false\x02"}))
        assert side.fast_path(frame, SENDER)[:2] == (None, 0)


async def test_when_many_wait_the_next_are_left_to_the_handlers_until_there_are_fewer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = threading.Event()
    monkeypatch.setattr(durable, "WAITING_MAX", 3)
    async with waiting(tmp_path) as side:
        monkeypatch.setattr("hanabi.store.files.segment.Segment.flush", _flush_after(disk))
        assert side.fast_path is not None
        gone, stays = put(side, send(1)), put(side, send(2), send(3))
        assert side.fast_path(encode_frame(send(4)), SENDER)[:2] == (None, 0)
        gone.cancel()  # its client has left; the message is stored all the same
        disk.set()
        await stays
        code, _ = await put(side, send(5))
        assert code == ResponseCode.SUCCESS
        assert len(side.taking.records()) == FIRST + 4
