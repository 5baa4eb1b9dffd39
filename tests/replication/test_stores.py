"""Real stores on both sides: what a slave holds is what its master holds, and nothing else."""

from pathlib import Path

import pytest

from hanabi.remoting.address import parse_address
from hanabi.replication.log_access import StoreLog
from hanabi.replication.rules.verdicts import RefusalKind
from hanabi.store.message_store import MessageStore
from hanabi.testing.clock import ManualClock
from hanabi.testing.proxy import Proxy
from tests.replication.logs import running_master, running_slave, until
from tests.store.stores import copy_as_after_a_kill, message, open_store, read_queue

NOW_MS = ManualClock()()
pytestmark = pytest.mark.usefixtures("new_loop")


def put(store: MessageStore, first: int, count: int) -> None:
    for number in range(first, first + count):
        store.put(
            message(b"%0*d" % (number * 37 % 900, number), queue_id=number % 3, properties={"KEYS": f"k{number}"})
        )


def assert_same(slave: MessageStore, master: MessageStore) -> None:
    for queue_id in range(3):
        assert read_queue(slave, queue_id=queue_id) == read_queue(master, queue_id=queue_id)


async def test_a_slave_store_follows_through_cuts_and_a_kill(tmp_path: Path) -> None:
    master, slave = open_store(tmp_path / "master"), open_store(tmp_path / "slave")
    async with running_master(StoreLog(master)) as (sender, address), Proxy(parse_address(address)) as proxy:
        put(master, 0, 1)
        async with running_slave(StoreLog(slave), proxy.address) as follower:
            await until(lambda: slave.max_log_offset == master.max_log_offset)
            proxy.cut_after([3, 700, 5_000, 12_345])
            proxy.cut()
            for round_number in range(1, 10):
                put(master, round_number * 10, 10)
                sender.appended()
                await until(lambda: slave.max_log_offset == master.max_log_offset)
            assert proxy.cuts >= 4
            assert not follower.refusals
        assert_same(slave, master)
        killed = copy_as_after_a_kill(slave, tmp_path / "killed")
        slave.close()
        put(master, 100, 50)
        again = open_store(killed)
        async with running_slave(StoreLog(again), address):
            await until(lambda: again.max_log_offset == master.max_log_offset)
        assert_same(again, master)
        again.close()
    master.close()


async def followed(whole: MessageStore, slave: MessageStore, count: int) -> None:
    """Put *count* messages into *whole*, and let *slave* copy them."""
    async with running_master(StoreLog(whole)) as (sender, address), running_slave(StoreLog(slave), address):
        for first, some in ((0, 1), (1, count - 1)):
            put(whole, first, some)
            sender.appended()
            await until(lambda: slave.max_log_offset == whole.max_log_offset)


async def is_refused(lost: MessageStore, slave: MessageStore) -> str:
    """Return why *slave*, which is refused nothing by the master of *lost*, does not follow it."""
    async with (
        running_master(StoreLog(lost)) as (master, address),
        running_slave(StoreLog(slave), address) as follower,
    ):
        await until(lambda: follower.refusals[RefusalKind.DIVERGED] >= 3)
        assert follower.refusals.keys() == {RefusalKind.DIVERGED}
        assert not follower.state().is_connected
        assert follower.state().trouble_kind is RefusalKind.DIVERGED
        assert not master.refusals
        return follower.state().trouble


@pytest.mark.parametrize("more", [0, 1, 30])
async def test_a_master_that_lost_its_tail_and_wrote_as_many_bytes_again_is_not_followed(
    tmp_path: Path, more: int, caplog: pytest.LogCaptureFixture
) -> None:
    whole, slave = open_store(tmp_path / "whole"), open_store(tmp_path / "slave")
    lost = open_store(tmp_path / "lost", clock=ManualClock(NOW_MS + 5_000))  # of the same sizes, some seconds later
    await followed(whole, slave, 20)
    put(lost, 0, 20)
    assert lost.max_log_offset == slave.max_log_offset  # no offset shows that the logs differ
    put(lost, 20, more)
    held = slave.max_log_offset
    assert "lost the end of its log and taken other messages" in await is_refused(lost, slave)
    assert slave.max_log_offset == held
    assert_same(slave, whole)
    assert len([line for line in caplog.messages if "is not followed" in line]) == 1
    for store in (whole, lost, slave):
        store.close()


async def test_a_slave_of_one_message_is_compared_too_and_gets_no_later_file_instead(tmp_path: Path) -> None:
    whole, slave = open_store(tmp_path / "whole"), open_store(tmp_path / "slave")
    await followed(whole, slave, 1)
    put(whole, 1, 50)  # its last file begins far behind the slave's end
    async with running_master(StoreLog(whole)) as (_, address), running_slave(StoreLog(slave), address) as follower:
        await until(lambda: slave.max_log_offset == whole.max_log_offset)
        assert not follower.refusals
    assert slave.min_log_offset == 0
    assert_same(slave, whole)
    whole.close()
    slave.close()


async def test_a_slave_without_the_queue_of_its_last_message_is_compared_by_its_last_bytes(tmp_path: Path) -> None:
    whole, slave = open_store(tmp_path / "whole"), open_store(tmp_path / "slave")
    await followed(whole, slave, 20)
    slave.delete_topic("T")
    assert slave.last_message_offset() is None
    put(whole, 20, 10)
    async with running_master(StoreLog(whole)) as (_, address), running_slave(StoreLog(slave), address) as follower:
        await until(lambda: slave.max_log_offset == whole.max_log_offset)
        assert not follower.refusals
    whole.close()
    slave.close()


async def test_a_slave_ahead_of_a_master_with_a_lost_tail_is_never_mixed_with_its_new_messages(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole, lost, slave = (open_store(tmp_path / name) for name in ("whole", "lost", "slave"))
    put(lost, 0, 18)  # the same log without its last two messages
    async with running_master(StoreLog(whole)) as (sender, address), running_slave(StoreLog(slave), address):
        for first, count in ((0, 1), (1, 19)):
            put(whole, first, count)
            sender.appended()
            await until(lambda: slave.max_log_offset == whole.max_log_offset)
    put(lost, 1000, 20)  # by now it is longer than the slave's
    async with running_master(StoreLog(lost)) as (_, address), running_slave(StoreLog(slave), address) as follower:
        await until(lambda: follower.refusals[RefusalKind.DIVERGED] >= 3)
        assert "its log differs from the one here" in follower.state().trouble
    assert_same(slave, whole)
    assert slave.max_log_offset == whole.max_log_offset
    assert len([line for line in caplog.messages if "is not followed" in line]) == 1
    for store in (whole, lost, slave):
        store.close()
