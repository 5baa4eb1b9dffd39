"""A task that reads its range while the master is gone: from the slave, and no message counts as lost."""

import asyncio

import pytest

from hanabi.client.cluster.core import Core
from hanabi.message import MessageQueue
from hanabi.spark.broker.options import parse_batch_options
from hanabi.spark.broker.range_pull import RangePull, SlaveBehind
from hanabi.spark.shared.ranges import QueueRange
from hanabi.wire.codes import RequestCode, ResponseCode
from tests.client.pair import NAME, Pair, running_pair

PULL = RequestCode.PULL_MESSAGE
MESSAGES = [b"%d" % number for number in range(100)]


async def read(pair: Pair, end: int = 100, *, retry_ms: int = 10_000) -> int:
    """Read the queue up to *end*; return the number of answers."""
    given = {"namesrv": pair.namesrv, "subscribe": "T", "retryTimeoutMs": str(retry_ms), "failOnDataLoss": "false"}
    options = parse_batch_options(given).read
    core = await Core.acquire(pair.config())
    pull = RangePull(core, options, "*", QueueRange(MessageQueue("T", NAME, 0), 0, end))
    try:
        await core.routes.find("T")
        answers = 0
        while found := await pull.chunk():
            answers += len(found)
        return answers
    finally:
        await pull.close()
        await core.release()


async def test_a_range_is_read_from_the_slave_while_the_master_is_gone_or_suggests_it() -> None:
    async with running_pair() as pair:
        pair.logs["T"] = list(MESSAGES)
        assert await read(pair) > 0
        assert not pair.slave.codes(PULL)
        pair.master.suggests = 1
        assert await read(pair) > 0
        assert pair.slave.codes(PULL)
        await pair.master.kill()  # the name server has not noticed yet
        assert await read(pair) > 0
        await pair.lose(pair.master)
        assert await read(pair) > 0
        assert all(not header.sys_flag & 1 for header in pair.slave.headers(PULL))


async def test_what_a_slave_has_not_got_yet_is_waited_for_and_never_counts_as_lost() -> None:
    async with running_pair() as pair:
        pair.logs["T"] = list(MESSAGES)
        pair.slave.end = 50
        await pair.lose(pair.master)
        with pytest.raises(SlaveBehind, match="is its master up"):
            await read(pair, retry_ms=300)
        reading = asyncio.create_task(read(pair))
        await asyncio.sleep(0.3)
        assert not reading.done()
        await pair.bring_back(pair.master)
        assert await reading > 0


async def test_a_slave_that_refuses_reads_leads_back_to_its_master() -> None:
    async with running_pair() as pair:
        pair.logs["T"] = list(MESSAGES)
        pair.master.suggests = 1
        pair.slave.refusals[PULL] = pair.refusal(ResponseCode.SYSTEM_BUSY, "start flow control for a while")
        assert await read(pair) > 0
