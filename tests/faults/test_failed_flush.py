"""A flush that fails, and a restart: what is acknowledged afterwards is on the disk, with all that lies before it.

After a failed sync Linux takes the pages for clean, so the next sync succeeds without writing them.
"""

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from hanabi.errors import StoreDamaged
from hanabi.store.config import StoreConfig
from hanabi.store.message_store import MessageStore
from hanabi.store.queues.consume_queue import ENTRY
from hanabi.store.queues.queue_files import SYNC_EACH_MAX
from hanabi.store.upkeep.checkpoint import Checkpoint
from hanabi.testing.waiting import wait_until
from hanabi.wire.codes import ResponseCode
from tests.faults.broker_process import broker_process
from tests.faults.exchange import QUEUE, TOPIC, Exchange, talk
from tests.faults.power_cut import Recording
from tests.faults.shim import Faults
from tests.store.stores import message, open_store

SYNC: Final = {"flushDiskType": "SYNC_FLUSH", "syncFlushTimeout": 2_000}
BEFORE: Final = [b"before %d" % number for number in range(20)]
FAILED: Final = [b"failed %d " % number + b"x" * 100_000 for number in range(60)]  # pages may be synced by megabytes
AFTER: Final = [b"after %d" % number for number in range(100)]


async def send_before(client: Exchange) -> None:
    await client.send_all(BEFORE)


async def send_after(client: Exchange) -> None:
    await client.send_all(AFTER)


async def send_without_a_disk(client: Exchange) -> list[bytes]:
    """Send until messages are refused, as nothing is written after a failed flush; those acknowledged before that."""
    acknowledged: list[bytes] = []
    for body in FAILED:
        answer = await client.send(body)
        if answer.code == ResponseCode.SUCCESS:
            acknowledged.append(body)
        elif answer.code != ResponseCode.FLUSH_DISK_TIMEOUT:
            assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert "commitlog" in (answer.remark or "")
            return acknowledged
    raise AssertionError("the flush did not fail")


async def read_all(client: Exchange) -> list[bytes]:
    return await client.bodies()


def test_after_a_failed_flush_and_a_restart_all_that_is_acknowledged_survives_a_power_cut(
    faults: Faults, recording: Recording, tmp_path: Path
) -> None:
    store, image = tmp_path / "store", tmp_path / "image"
    env = {**faults.environment, **recording.environment}
    with broker_process(store, SYNC, env=env) as broker:
        talk(broker.port, send_before)
        with (
            faults.rule("msync", errno.EIO, path="*/commitlog/*"),
            faults.rule("fdatasync", errno.EIO, path="*/commitlog/*"),
        ):
            assert not talk(broker.port, send_without_a_disk)
    with broker_process(store, SYNC, env=env) as broker:
        talk(broker.port, send_after)
    recording.image(image)
    with broker_process(image, SYNC) as broker:
        found = talk(broker.port, read_all)
    assert [body for body in found if body not in FAILED] == BEFORE + AFTER


def test_a_restart_on_a_disk_that_still_fails_names_the_file_and_ends(faults: Faults, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with broker_process(store, SYNC, env=faults.environment) as broker:
        talk(broker.port, send_before)
    with (
        faults.rule("fdatasync", errno.EIO, path="*/commitlog/*"),
        broker_process(store, SYNC, env=faults.environment) as broker,
    ):
        assert broker.process.wait_ended() != 0
        assert "commitlog/00000000000000000000" in broker.process.output()
        assert "Traceback" not in broker.process.output()
    with broker_process(store, SYNC) as broker:
        assert talk(broker.port, read_all) == BEFORE


KEYED: Final = [f"k{number}" for number in range(40)]
LATER: Final = [b"later", b"later still"]
EAGER: Final = {**SYNC, "flushIntervalConsumeQueue": 100, "flushConsumeQueueThoroughInterval": 100}


async def send_keyed(client: Exchange) -> None:
    for key in KEYED:
        await client.send_all([key.encode()], {"KEYS": key})


def found_by_key(root: Path) -> list[str]:
    config = StoreConfig(root=str(root), commit_log_segment_bytes=1 << 22, consume_queue_segment_bytes=20_000)
    with MessageStore.open(msgspec.structs.replace(config, index_slots=1_000, index_entries=4_000)) as store:
        return [key for key in KEYED if store.queries.by_key(TOPIC, key, 8, 0, 2**62).records]


def checkpoint(root: Path) -> Checkpoint:
    return Checkpoint.load(root / "checkpoint", now_ms=2**62)


def send_and_see_written(port: int, root: Path, body: bytes) -> None:
    """Send a message and wait until its entry is in the file of the queue."""
    count = entries_in_file(root)
    talk(port, lambda client: client.send_all([body]))
    wait_until(lambda: entries_in_file(root) > count, "another flush of the queues")


def entries_in_file(root: Path) -> int:
    """Return how many messages the queue's file has: entries with a size."""
    raw = (root / "consumequeue" / TOPIC / str(QUEUE) / f"{0:020d}").read_bytes()
    return sum(size > 0 for _, size, _ in ENTRY.iter_unpack(raw))


@pytest.mark.parametrize("folder", ["consumequeue", "index"])
def test_after_a_failed_sync_of_queues_or_index_no_checkpoint_vouches_for_them(
    folder: str, faults: Faults, recording: Recording, tmp_path: Path
) -> None:
    store, image = tmp_path / "store", tmp_path / "image"
    env = {**faults.environment, **recording.environment}
    with broker_process(store, EAGER, env=env) as broker:
        talk(broker.port, send_before)
        wait_until(lambda: checkpoint(store).safe_ms > 0, "a checkpoint of log and queues")
        with faults.rule("fdatasync", errno.EIO, path=f"*/{folder}*") as rule:
            talk(broker.port, send_keyed)
            rule.wait_hit()
        wait_until(lambda: "the checkpoint stays" in broker.process.output(), "an error in the log")
        before = checkpoint(store)
        for body in LATER:  # when the second is in its file, the flush that wrote the first has ended
            send_and_see_written(broker.port, store, body)
        assert (checkpoint(store).queues_ms, checkpoint(store).index_ms) == (before.queues_ms, before.index_ms)
    with broker_process(store, EAGER, env=env) as broker:  # after which the old checkpoint may be replaced
        talk(broker.port, send_after)
        wait_until(lambda: checkpoint(store).queues_ms > before.queues_ms, "a checkpoint of the second start")
    recording.image(image)
    assert found_by_key(image) == KEYED
    with broker_process(image, SYNC) as broker:
        assert talk(broker.port, read_all) == BEFORE + [key.encode() for key in KEYED] + LATER + AFTER


class ThinDisk:
    """ext4 on a sparse file on a small tmpfs: the file system believes in more room than there is behind it.

    Without a journal, which would fail as well and make the file system read-only.
    """

    def __init__(self, root: Path) -> None:
        self._backing, self.path = root / "backing", root / "disk"
        self.image = self._backing / "image"

    def mount(self) -> None:
        for directory in (self._backing, self.path):
            directory.mkdir(parents=True)
        _run("mount", "-t", "tmpfs", "-o", "size=24m", "none", self._backing)
        _run("truncate", "-s", "256M", self.image)
        _run("mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-E", "nodiscard", self.image)
        _run("mount", "-o", "loop", self.image, self.path)

    def fill(self) -> None:
        """Leave no room behind the disk."""
        with (self._backing / "filler").open("wb") as file:
            while True:
                try:
                    file.write(bytes(1 << 16))
                    file.flush()
                except OSError:
                    return

    def repair(self) -> None:
        (self._backing / "filler").unlink()

    def after_a_power_cut(self, target: Path) -> None:
        """Mount a copy of the device as it is now at *target*: what only the page cache has is not there."""
        copy = target.with_name(target.name + ".image")
        shutil.copyfile(self.image, copy)
        subprocess.run(["e2fsck", "-fy", copy], check=False, capture_output=True)
        target.mkdir()
        _run("mount", "-o", "loop", copy, target)

    def unmount(self) -> None:
        subprocess.run(["umount", self.path], check=False)
        subprocess.run(["umount", self._backing], check=False)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def thin_disk(tmp_path: Path) -> Iterator[ThinDisk]:
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("a loop device needs root and mkfs.ext4")
    disk = ThinDisk(tmp_path / "thin")
    try:
        try:
            disk.mount()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no loop device: {error.stderr.decode(errors='replace').strip()}")
        yield disk
    finally:
        disk.unmount()


def test_after_a_failed_flush_of_a_real_disk_all_that_is_acknowledged_is_on_the_device(
    thin_disk: ThinDisk, tmp_path: Path
) -> None:
    store, cut = thin_disk.path, tmp_path / "cut"
    with broker_process(store, SYNC) as broker:
        talk(broker.port, send_before)
        thin_disk.fill()
        acknowledged = talk(broker.port, send_without_a_disk)
    thin_disk.repair()
    with broker_process(store, SYNC) as broker:
        talk(broker.port, send_after)
    thin_disk.after_a_power_cut(cut)
    try:
        with broker_process(cut, SYNC) as broker:
            found = talk(broker.port, read_all)
    finally:
        subprocess.run(["umount", cut], check=False)
    assert [body for body in found if body not in FAILED] == BEFORE + AFTER
    assert set(acknowledged) <= set(found)


def test_a_failed_sync_of_many_queue_files_at_once_is_noticed_and_stops_the_checkpoint(
    thin_disk: ThinDisk, tmp_path: Path
) -> None:
    root = thin_disk.path / "store"
    store = open_store(root, commit_log_dir=str(tmp_path / "commitlog"), index_enabled=False)
    try:
        store.put(message(topic="first"))
        store.flush()
        before = checkpoint(root)
        for number in range(SYNC_EACH_MAX + 50):
            assert store.put(message(topic=f"T{number}")).appended
        thin_disk.fill()
        with pytest.raises(StoreDamaged, match=r"syncing \d+ files of .*consumequeue.*the checkpoint stays"):
            store.flush()
        with pytest.raises(StoreDamaged, match="the checkpoint stays"):
            store.flush()
        assert checkpoint(root).queues_ms == before.queues_ms
    finally:
        thin_disk.repair()
        with pytest.raises(StoreDamaged):
            store.close()
