"""Consumers, ours and a Java one, that run when the master of their pair is killed: they go on at the slave, return to
the master when it is back, and their offsets never go back."""

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.interop.jars import SERVERS_4
from tests.interop.mixed_members import JavaMember, ProcessMember, PythonProcessMember
from tests.interop.pairs import OURS, BrokerPair, running_pair
from tests.interop.test_slave_brokers import committed, log_end, send_numbers, until

pytestmark = pytest.mark.usefixtures("apache_jars")
SLOW = pytest.mark.skipif("HANABI_SLOW_TESTS" not in os.environ, reason="Java refreshes routes every 30 s")
EACH = 40


@pytest.mark.parametrize("kinds", [("python",), pytest.param(("python", "java"), marks=SLOW)], ids="-".join)
async def test_running_consumers_go_on_at_the_slave_and_return_to_the_master(
    tmp_path: Path, kinds: tuple[str, ...]
) -> None:
    with running_pair(tmp_path, OURS, OURS) as pair:
        await asyncio.to_thread(send_numbers, pair.master.address, EACH)
        members = [member(kind, pair, tmp_path) for kind in kinds]
        try:
            await until(lambda: all(len(each.queues) == 4 // len(members) for each in members))
            await until(lambda: committed(pair.master.address) == EACH)
            await go_on_at_the_slave(pair, members)
            await return_to_the_master(pair)
            assert {int(body) for each in members for body in each.got} == set(range(EACH))
        finally:
            for each in members:
                await each.leave()


def member(kind: str, pair: BrokerPair, home: Path) -> ProcessMember:
    if kind == "java":
        return JavaMember("j", pair.namesrv, home, SERVERS_4)
    return PythonProcessMember("p", pair.namesrv, home)


async def go_on_at_the_slave(pair: BrokerPair, members: Sequence[ProcessMember]) -> None:
    """Kill the master when its slave has messages that no consumer has seen."""
    before = [len(each.got) for each in members]
    for each in members:
        os.kill(each.pid, signal.SIGSTOP)
    await asyncio.to_thread(send_numbers, pair.master.address, EACH)
    await until(lambda: log_end(pair.slave.address) == log_end(pair.master.address) > 0)
    pair.master.process.kill()
    for each in members:
        os.kill(each.pid, signal.SIGCONT)
    share = EACH // len(members)
    await until(
        lambda: [len(each.got) - count for each, count in zip(members, before, strict=True)] == [share] * len(members)
    )
    await until(lambda: committed(pair.slave.address) == 2 * EACH)


async def return_to_the_master(pair: BrokerPair) -> None:
    """Start the master, send more, and wait until the consumers have committed all of it there.

    Messages may come twice: a master that was away knows the offsets of its last moment, and the first consumer that
    returns gets all queues for a moment. Its offsets must not go back.
    """
    seen = [EACH]
    pair.master.start_again()
    await asyncio.to_thread(pair.wait_known, pair.master)
    await asyncio.to_thread(send_numbers, pair.master.address, EACH)

    def all_committed() -> bool:
        seen.append(committed(pair.master.address))
        return seen[-1] == 3 * EACH

    await until(all_committed)
    assert seen == sorted(seen)
