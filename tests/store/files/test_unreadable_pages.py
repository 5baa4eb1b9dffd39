"""Pages of the log that cannot be read: an error with the file's name, and never the end of the process (SIGBUS)."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hanabi.errors import StoreDamaged
from hanabi.store.message_store import MessageStore
from tests.store.stores import message, open_store, records_of

FILE_BYTES = 1 << 20
PAGE = 4_096
COUNT = 200


def fill(store: MessageStore) -> None:
    for number in range(COUNT):
        assert store.put(message(b"%04d" % number + b"x" * 1_000)).appended


@pytest.fixture
def opened(tmp_path: Path) -> MessageStore:
    """Return a store of an earlier process, opened again."""
    with open_store(tmp_path / "store", commit_log_segment_bytes=FILE_BYTES) as store:
        fill(store)
    return open_store(tmp_path / "store", commit_log_segment_bytes=FILE_BYTES)


def cut(store: MessageStore, pages: int) -> None:
    """Cut the log's file: to look behind its end is a SIGBUS, as with a page that the device cannot read."""
    os.truncate(store.config.commit_log_path / f"{0:020d}", pages * PAGE)


def test_a_read_of_a_page_that_cannot_be_read_is_an_error_with_the_file_and_skips_nothing(opened: MessageStore) -> None:
    cut(opened, 10)
    offset, found = 0, list[bytes]()
    for _ in range(2):
        result = opened.get("T", 0, offset, 32)
        assert result.next_offset == offset + result.count
        offset = result.next_offset
        found += [record.body[:4] for record in records_of(result)]
    assert found == [b"%04d" % number for number in range(len(found))]
    assert 33 <= len(found) <= 40
    with pytest.raises(
        StoreDamaged, match=r"commitlog/0{20}: bytes \d+ to \d+ cannot be read .* put a copy of the file"
    ):
        opened.get("T", 0, offset, 32)


def test_a_query_of_a_page_that_cannot_be_read_is_an_error(opened: MessageStore) -> None:
    last = opened.max_log_offset - 1_110
    cut(opened, 10)
    with pytest.raises(StoreDamaged, match="cannot be read"):
        opened.queries.record(last)
    assert opened.queries.record(0) is not None


def test_a_file_that_was_cut_is_named_at_the_start(opened: MessageStore) -> None:
    root = Path(opened.config.root)
    opened.close()
    os.truncate(root / "commitlog" / f"{0:020d}", 10 * PAGE)
    with pytest.raises(StoreDamaged, match=r"commitlog/0{20} has 40960 bytes"):
        open_store(root, commit_log_segment_bytes=FILE_BYTES)


class FailingDisk:
    """A disk on a file whose end is cut off later: the device then cannot read what lies there."""

    def __init__(self, root: Path) -> None:
        self.image, self.path = root / "image", root / "disk"

    def mount(self) -> None:
        self.path.mkdir(exist_ok=True)
        _run("mount", "-o", "loop", self.image, self.path)

    def make(self) -> None:
        _run("truncate", "-s", "32M", self.image)
        _run("mkfs.ext4", "-q", "-F", "-b", str(PAGE), "-O", "^has_journal", self.image)
        self.mount()

    def lose(self, file: Path, page: int) -> None:
        """Make one page of *file* and what lies behind it on the device unreadable."""
        inner = file.relative_to(self.path)
        self.unmount()
        found = subprocess.run(
            ["debugfs", "-R", f"bmap /{inner} {page}", self.image], check=True, capture_output=True, text=True
        )
        self.mount()
        os.truncate(self.image, int(found.stdout) * PAGE)

    def unmount(self) -> None:
        subprocess.run(["umount", self.path], check=False, capture_output=True)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def disk(tmp_path: Path) -> "FailingDisk":
    disk = FailingDisk(tmp_path)
    if os.geteuid() != 0:
        pytest.skip("a loop device needs root")
    try:
        disk.make()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no loop device: {error}")
    return disk


OPEN = """
import sys
from pathlib import Path
from tests.store.stores import open_store
try:
    store = open_store(Path(sys.argv[1]), commit_log_segment_bytes=1 << 20, commit_log_dir=sys.argv[2])
    print(store.get("T", 0, 0, 32).count)
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("crashed", [True, False])
def test_a_page_that_the_device_cannot_read_is_named_and_costs_no_process_and_no_message(
    disk: FailingDisk, tmp_path: Path, crashed: bool
) -> None:
    root, log = tmp_path / "store", disk.path / "commitlog"
    try:
        with open_store(root, commit_log_segment_bytes=FILE_BYTES, commit_log_dir=str(log)) as store:
            fill(store)
        if crashed:
            (root / "abort").write_bytes(b"hanabi\n")
            (root / "checkpoint").unlink()
        disk.lose(log / f"{0:020d}", 2)
        told = subprocess.run(
            [sys.executable, "-c", OPEN, root, log],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).parents[3],
        )
        assert told.returncode == 0, told
        assert "StoreDamaged" in told.stdout
        assert f"{0:020d}: bytes" in told.stdout
        assert "cannot be read" in told.stdout
        os.truncate(disk.image, 32 << 20)  # as good as repaired, but for what was cut off
    finally:
        disk.unmount()


def test_the_search_for_the_next_record_behind_damage_names_a_page_that_the_device_cannot_read(
    disk: FailingDisk, tmp_path: Path
) -> None:
    root, log = tmp_path / "store", disk.path / "commitlog"
    try:
        with open_store(root, commit_log_segment_bytes=8 << 20, commit_log_dir=str(log)) as store:
            for _ in range(3):
                assert store.put(message(b"x" * (2 << 20))).appended
        path = log / f"{0:020d}"
        with path.open("r+b") as file:  # the second record: its length and its magic number are gone
            size = int.from_bytes(path.read_bytes()[:4], "big")
            file.seek(size)
            file.write(bytes(3) + b"\x07" + bytes(4))
        (root / "abort").write_bytes(b"hanabi\n")
        (root / "checkpoint").unlink()
        disk.lose(path, (size + (3 << 19)) // PAGE)  # further than the walk has asked for
        told = subprocess.run(
            [sys.executable, "-c", OPEN.replace("1 << 20", "8 << 20"), root, log],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).parents[3],
        )
        assert told.returncode == 0, told
        assert f"{0:020d}: bytes" in told.stdout
        assert "cannot be read" in told.stdout
        os.truncate(disk.image, 32 << 20)
    finally:
        disk.unmount()


# The key index: files of one chunk for the slots and several for the entries

KEYS = 20_000


def open_indexed(root: Path) -> MessageStore:
    return open_store(
        root,
        index_slots=2_048,
        index_entries=30_000,
        commit_log_segment_bytes=16 << 20,
        consume_queue_segment_bytes=200_000,
    )


def fill_with_keys(store: MessageStore) -> None:
    for number in range(KEYS):
        assert store.put(message(b"%d" % number, properties={"KEYS": f"key-{number}"})).appended


def index_file(root: Path) -> Path:
    (path,) = (root / "index").iterdir()
    return path


def found_by(store: MessageStore, key: str) -> int:
    return len(store.queries.by_key("T", key, 8, 0, 2**62).records)


def test_an_index_file_that_was_cut_while_in_use_is_set_aside_and_the_next_one_serves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_indexed(tmp_path / "store") as store:
        fill_with_keys(store)
        assert found_by(store, "key-10") == found_by(store, f"key-{KEYS - 1}") == 1
    store = open_indexed(tmp_path / "store")  # not started: no thread allocates what was cut off again
    path = index_file(tmp_path / "store")
    os.truncate(path, 10 * PAGE)
    assert found_by(store, f"key-{KEYS - 1}") == 0
    assert found_by(store, "key-10") == 0
    told = [record.getMessage() for record in caplog.records if "cannot be read" in record.getMessage()]
    assert len(told) == 1
    assert str(path) in told[0]
    assert "not found by key" in told[0]
    assert store.put(message(properties={"KEYS": "later"})).appended
    assert found_by(store, "later") == 1
    assert store.get("T", 0, KEYS, 1).count == 1
    store.close()
    with open_indexed(tmp_path / "store") as store:
        assert found_by(store, "later") == 1


QUERY = """
import logging, sys
from pathlib import Path
from tests.store.stores import message
from tests.store.files.test_unreadable_pages import KEYS, found_by, open_indexed
logging.basicConfig(stream=sys.stdout)
store = open_indexed(Path(sys.argv[1]))
print("found", [found_by(store, f"key-{number}") for number in (10, KEYS // 2, KEYS - 1)])
print("got", store.get("T", 0, 0, 32).count)
store.put(message(properties={"KEYS": "later"}))
print("later", found_by(store, "later"))
store.close()
"""


@pytest.mark.parametrize("crashed", [True, False])
@pytest.mark.parametrize("page", [0, 1, 20, 60])
def test_a_page_of_the_index_that_the_device_cannot_read_costs_its_keys_alone(
    disk: FailingDisk, tmp_path: Path, crashed: bool, page: int
) -> None:
    """Page 0 has the header, 1 and 2 have slots, the others entries."""
    root, on_disk = tmp_path / "store", disk.path / "index"
    try:
        with open_indexed(root) as store:
            fill_with_keys(store)
        path = index_file(root)
        shutil.move(path, on_disk)
        path.symlink_to(on_disk)
        if crashed:
            (root / "abort").write_bytes(b"hanabi\n")
            (root / "checkpoint").unlink()
        disk.lose(on_disk, page)
        told = subprocess.run(
            [sys.executable, "-c", QUERY, root],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).parents[3],
        )
        assert told.returncode == 0, told
        assert told.stdout.count("cannot be read") == 1
        assert f"{path}: bytes" in told.stdout
        assert "got 32\n" in told.stdout
        assert "later 1\n" in told.stdout
        if crashed:  # built again from the log
            assert "found [1, 1, 1]" in told.stdout
        os.truncate(disk.image, 32 << 20)
    finally:
        disk.unmount()
