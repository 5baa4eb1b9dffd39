"""A clock that is 100 days ahead for seconds deletes nothing, delivers nothing, and leaves no mark on new messages."""

import time
from pathlib import Path
from typing import Final

import pytest

from chaos.clock import ClockUnavailable, ShiftedClock, compile_library
from hanabi.testing.waiting import wait_until
from hanabi.wire.codes import RequestCode
from hanabi.wire.headers.offset import GetMinOffsetHeader
from tests.faults.broker_process import BrokerProcess, broker_process
from tests.faults.exchange import QUEUE, TOPIC, Exchange, talk

DAYS_100_S: Final = 100 * 86_400.0
SETTINGS: Final = {
    "mappedFileSizeCommitLog": 1 << 16,
    "deleteWhen": ";".join(f"{hour:02d}" for hour in range(24)),
    "cleanResourceInterval": 100,
    "deleteCommitLogFilesInterval": 1,
    "timerWheelEnable": "true",
    "messageDelayLevel": "1s 2h",
}
BODIES: Final = [b"%d" % number + b"x" * 8000 for number in range(60)]


@pytest.fixture
def clock(tmp_path: Path) -> ShiftedClock:
    try:
        return ShiftedClock(compile_library(tmp_path), tmp_path / "clock")
    except ClockUnavailable as unavailable:
        pytest.skip(str(unavailable))


def first(broker: BrokerProcess) -> int:
    """Return the offset of the oldest message that is kept."""

    async def ask(client: Exchange) -> int:
        header = GetMinOffsetHeader(topic=TOPIC, queue_id=QUEUE)
        answer = await client.peer.ask(RequestCode.GET_MIN_OFFSET, header)
        return int(answer.fields()["offset"])

    return talk(broker.port, ask)


async def fill(client: Exchange) -> None:
    await client.send_all(BODIES)
    in_an_hour = str(int(time.time() * 1000) + 3_600_000)
    assert (await client.send(b"timer", {"TIMER_DELIVER_MS": in_an_hour}, topic="Later")).code == 0
    assert (await client.send(b"level", {"DELAY": "2"}, topic="Later")).code == 0


def test_a_clock_that_is_ahead_for_seconds_deletes_nothing_and_delivers_nothing(
    clock: ShiftedClock, tmp_path: Path
) -> None:
    with broker_process(tmp_path / "store", SETTINGS, env=clock.environment) as broker:
        talk(broker.port, fill)
        clock.shift(DAYS_100_S)
        wait_until(lambda: "the clock went ahead by 100 days" in broker.process.output(), "a line about the clock")
        time.sleep(2.0)  # as long as it takes to delete and to deliver
        clock.shift(0.0)
        assert first(broker) == 0
        assert talk(broker.port, lambda client: client.bodies(topic="Later")) == []
        talk(broker.port, lambda client: client.send_all([b"now"]))
        (record,) = talk(broker.port, lambda client: client.pull(len(BODIES)))
        assert abs(record.store_timestamp_ms / 1000 - time.time()) < 600
