"""The next log file cannot be made: no thread, no map, no blocks. Sends go on, or are refused until it can be."""

import asyncio
import errno
from pathlib import Path

import pytest

from hanabi.wire.codes import ResponseCode
from tests.faults.broker_process import broker_process
from tests.faults.exchange import Exchange, talk
from tests.faults.shim import Faults

BODY_BYTES = 100_000
A_FILE = (1 << 22) // BODY_BYTES  # so many messages fill a log file
RETRIED = {ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE}


class Sends:
    """Messages with numbers, sent one after the other, and what became of each."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.acknowledged: list[bytes] = []
        self.refused: list[int] = []
        self._number = 0

    async def send(self, count: int) -> None:
        for _ in range(count):
            self._number += 1
            body = b"%0*d" % (BODY_BYTES, self._number)
            answer = await self.exchange.send(body, {"KEYS": f"key{self._number}"})
            if answer.code == ResponseCode.SUCCESS:
                self.acknowledged.append(body)
            else:
                self.refused.append(answer.code)

    async def check(self) -> None:
        """Whatever was acknowledged can be read, once and in order."""
        assert await self.exchange.bodies() == self.acknowledged


def test_no_thread_is_needed_for_the_next_log_file(faults: Faults, tmp_path: Path) -> None:
    async def work(exchange: Exchange) -> None:
        sends = Sends(exchange)
        await sends.send(1)
        with faults.rule("pthread_create", errno.EAGAIN):
            await sends.send(3 * A_FILE)
        assert sends.refused == []
        await sends.check()

    with broker_process(tmp_path / "store", env=faults.environment) as broker:
        talk(broker.port, work)


def test_topics_are_made_and_messages_found_where_no_thread_can_be_started(faults: Faults, tmp_path: Path) -> None:
    async def work(exchange: Exchange) -> None:
        with faults.rule("pthread_create", errno.EAGAIN):
            answers = await asyncio.gather(*(exchange.send(b"x", topic=f"New{number}") for number in range(20)))
            assert {answer.code for answer in answers} == {ResponseCode.SUCCESS}
            assert await exchange.bodies(topic="New7") == [b"x"]

    with broker_process(tmp_path / "store", env=faults.environment) as broker:
        talk(broker.port, work)
        broker.process.stop()
        assert "Traceback" not in broker.process.log.read_text()


@pytest.mark.parametrize(
    ("call", "number", "path"),
    [
        ("mmap", errno.ENOMEM, "*/commitlog/*"),
        ("fallocate", errno.ENOSPC, "*/commitlog/*"),
        ("ftruncate", errno.EIO, "*/commitlog/*"),
        ("open", errno.EMFILE, "*/commitlog/*"),
        ("mmap", errno.ENOMEM, "*/index/*"),
        ("fallocate", errno.ENOSPC, "*/index/*"),
    ],
)
def test_sends_are_refused_while_the_next_file_cannot_be_made_and_taken_afterwards(
    faults: Faults, tmp_path: Path, call: str, number: int, path: str
) -> None:
    async def work(exchange: Exchange) -> None:
        sends = Sends(exchange)
        await sends.send(1)
        with faults.rule(call, number, path=path) as rule:
            await sends.send(2 * A_FILE)
            assert rule.counts.hit > 0
        assert sends.refused
        assert set(sends.refused) <= RETRIED
        refused = len(sends.refused)
        await sends.send(2 * A_FILE)
        assert len(sends.refused) == refused
        await sends.check()

    # An index file with room for fewer messages than a log file has.
    settings = {"maxHashSlotNum": 8, "maxIndexNum": A_FILE - 10}
    with broker_process(tmp_path / "store", settings, env=faults.environment) as broker:
        talk(broker.port, work)
