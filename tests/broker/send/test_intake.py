"""The one way into the store: counting, waiting for the disk, and what is not stored."""

import asyncio
import threading
from pathlib import Path

import msgspec
import pytest

from hanabi.errors import MessageRefused
from hanabi.store.config import FlushMode
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import PutStatus
from hanabi.wire.system_names import SCHEDULE_TOPIC
from tests.broker.sending import STORE_HOST, TOPIC, Taking

MESSAGE = PendingMessage(TOPIC, 0, b"hello", b"TAGS\x01a", 1, STORE_HOST, STORE_HOST)
DELAYED = msgspec.structs.replace(MESSAGE, properties=b"DELAY\x012")


@pytest.fixture
def taking(tmp_path: Path) -> Taking:
    return Taking(tmp_path)


def test_everything_that_is_stored_is_counted_and_what_is_refused_too(taking: Taking) -> None:
    stats = taking.stats.store
    taking.intake.put(MESSAGE)
    taking.intake.put_as_is(MESSAGE)
    taking.intake.put_batch([MESSAGE, MESSAGE])
    assert (stats.puts, stats.put_bytes, stats.puts_failed) == (4, taking.store.max_log_offset, 0)
    assert taking.intake.put(msgspec.structs.replace(MESSAGE, body=b"x" * 16_385)).status is PutStatus.MESSAGE_ILLEGAL
    taking.close()
    assert taking.intake.put(MESSAGE).status is PutStatus.SERVICE_NOT_AVAILABLE
    assert taking.intake.put_batch([MESSAGE]).status is PutStatus.SERVICE_NOT_AVAILABLE
    assert (stats.puts, stats.puts_failed) == (4, 3)


def test_a_message_that_has_to_wait_is_stored_where_it_waits_and_counted_there(taking: Taking) -> None:
    assert taking.intake.put(DELAYED).status is PutStatus.PUT_OK
    assert len(taking.schedule()) == 1
    taking.stats.tick()
    assert taking.stats.view("TOPIC_PUT_NUMS", SCHEDULE_TOPIC) is not None
    assert taking.stats.view("TOPIC_PUT_NUMS", TOPIC) is None
    taking.close()


def test_a_message_that_has_waited_is_stored_as_it_is(taking: Taking) -> None:
    assert taking.intake.put_as_is(DELAYED).status is PutStatus.PUT_OK
    assert len(taking.records()) == 1
    taking.close()


def test_a_time_that_cannot_be_is_raised_and_nothing_is_stored(taking: Taking) -> None:
    with pytest.raises(MessageRefused):
        taking.intake.put(msgspec.structs.replace(MESSAGE, properties=b"TIMER_DELAY_SEC\x01never"))
    assert taking.store.max_log_offset == 0
    taking.close()


def test_without_sync_flush_nobody_waits(taking: Taking) -> None:
    assert taking.intake.durable(taking.intake.put(MESSAGE)) is None
    taking.close()


async def test_all_that_a_turn_stored_waits_for_one_flush_and_none_for_another_that_gave_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, asked = threading.Event(), 0
    monkeypatch.setattr("hanabi.store.files.segment.sync_file", lambda _: disk.wait(60))
    taking = Taking(tmp_path, flush_mode=FlushMode.SYNC_FLUSH)
    await_flush = taking.store.await_flush

    def counted(*arguments: object) -> None:
        nonlocal asked
        asked += 1
        await_flush(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(taking.store, "await_flush", counted)
    taking.store.start()
    waits = []
    for _ in range(3):
        durable = taking.intake.durable(taking.intake.put(MESSAGE))
        assert durable is not None
        waits.append(asyncio.ensure_future(durable))
    await asyncio.sleep(0)
    next_turn = taking.intake.durable(taking.intake.put(MESSAGE))
    assert next_turn is not None
    waits[0].cancel()
    disk.set()
    assert await asyncio.gather(*waits[1:], next_turn) == [PutStatus.PUT_OK] * 3
    assert asked == 2
    await asyncio.to_thread(taking.close)


async def test_who_stores_while_the_store_is_closed_learns_that_the_disk_is_not_sure(tmp_path: Path) -> None:
    taking = Taking(tmp_path, flush_mode=FlushMode.SYNC_FLUSH)
    durable = taking.intake.durable(taking.intake.put(MESSAGE))
    taking.close()
    assert durable is not None
    assert await durable is PutStatus.FLUSH_DISK_TIMEOUT
