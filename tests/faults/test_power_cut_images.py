"""Power-cut images hold what was synced, under names that were synced, and nothing else."""

import errno
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.faults.broker_process import broker_process
from tests.faults.power_cut import PAGE_BYTES, Recording
from tests.faults.shim import Faults

BEGIN = """
import ctypes, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
def msync(memory, start, size):
    at = ctypes.c_char.from_buffer(memory, start)
    assert libc.msync(ctypes.byref(at), ctypes.c_size_t(size), 4) == 0
def sync(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
def write(path, text, synced=False):
    with open(path, "w") as file:
        file.write(text)
        if synced:
            file.flush()
            os.fsync(file.fileno())
"""


def after_the_cut(recording: Recording, tmp_path: Path, program: str, more: Mapping[str, str] | None = None) -> Path:
    """Return the image of the directory in which *program* ran."""
    store, image = tmp_path / "store", tmp_path / "image"
    store.mkdir(exist_ok=True)
    env = {**os.environ, **(more or {}), **recording.environment}
    subprocess.run([sys.executable, "-c", BEGIN + program], cwd=store, env=env, check=True)
    recording.image(image)
    return image


def names(image: Path) -> list[str]:
    return sorted(str(path.relative_to(image)) for path in image.rglob("*") if path.is_file())


def test_a_file_has_the_bytes_of_its_last_sync(recording: Recording, tmp_path: Path) -> None:
    program = "write('a', 'one', synced=True); write('a', 'two'); write('b', 'three')"
    image = after_the_cut(recording, tmp_path, program)
    assert names(image) == ["a"]
    assert (image / "a").read_text() == "one"


def test_of_a_mapped_file_the_synced_pages_are_there_and_the_others_are_zeros(
    recording: Recording, tmp_path: Path
) -> None:
    program = """
file = open('a', 'w+b')
file.truncate(16384)
memory = mmap.mmap(file.fileno(), 16384)
for page in range(4):
    memory[page * 4096] = 65 + page
msync(memory, 4096, 5)
memory[4097] = 90
"""
    raw = (after_the_cut(recording, tmp_path, program) / "a").read_bytes()
    assert raw == bytes(PAGE_BYTES) + b"B" + bytes(3 * PAGE_BYTES - 1)


def test_a_renamed_file_has_its_new_name_after_the_sync_of_the_directory(recording: Recording, tmp_path: Path) -> None:
    begin = "write('t', 'old'); sync('t'); write('t.tmp', 'new'); sync('t.tmp'); os.rename('t.tmp', 't')"
    image = after_the_cut(recording, tmp_path, begin)
    assert {name: (image / name).read_text() for name in names(image)} == {"t": "old", "t.tmp": "new"}


def test_a_file_that_was_replaced_is_durable_after_the_sync_of_its_directory_and_not_before(
    faults: Faults, recording: Recording, tmp_path: Path
) -> None:
    path = tmp_path / "store" / "table.json"
    program = """
from pathlib import Path
from hanabi.durable_table import DurableTable
table = DurableTable(Path('table.json').absolute(), encode=str.encode, decode=bytes.decode)
table.save('old'); table.save('new')
"""
    path.parent.mkdir()
    env = {**os.environ, **faults.environment, **recording.environment}
    with faults.rule("fsync", path=str(path.parent), after=1, delay_s=3600) as sync:
        process = subprocess.Popen([sys.executable, "-c", program], cwd=path.parent, env=env)
        sync.wait_hit()
        assert path.read_text() == "new"
        assert not recording.is_durable(path)
        recording.image(tmp_path / "cut")
        assert (tmp_path / "cut" / "table.json").read_text() == "old"
    assert process.wait() == 0
    assert recording.is_durable(path)


def test_a_directory_that_was_synced_has_the_names_of_that_moment(recording: Recording, tmp_path: Path) -> None:
    program = """
write('t', 'old'); sync('t'); write('gone', 'x'); sync('gone')
write('t.tmp', 'new'); sync('t.tmp'); os.rename('t.tmp', 't'); os.unlink('gone')
os.mkdir('below'); write('below/c', 'kept'); sync('below/c'); write('empty', 'never synced'); sync('.')
os.unlink('t')
"""
    image = after_the_cut(recording, tmp_path, program)
    assert names(image) == ["below/c", "empty", "t"]
    assert (image / "t").read_text() == "new"
    assert (image / "below" / "c").read_text() == "kept"
    assert (image / "empty").read_bytes() == bytes(len("never synced"))


def test_a_file_that_was_never_synced_has_its_size_or_none(recording: Recording, tmp_path: Path) -> None:
    program = (
        "write('a', 'x' * 5000, synced=True); write('b', 'y' * 5000); sync('.'); write('a', 'z' * 9000); sync('.')"
    )
    after_the_cut(recording, tmp_path, program)
    recording.image(tmp_path / "without sizes", sizes=False)
    sizes = {
        image: [(tmp_path / image / name).stat().st_size for name in ("a", "b")] for image in ("image", "without sizes")
    }
    assert sizes == {"image": [5000, 5000], "without sizes": [5000, 0]}


def test_a_sync_that_a_kill_ended_leaves_a_file_of_its_size(recording: Recording, tmp_path: Path) -> None:
    program = """
file = open('a', 'w+b')
file.truncate(16384)
sync('.')
file.write(b'x' * 16384); file.flush(); os.fsync(file.fileno())
"""
    after_the_cut(recording, tmp_path, program)
    record = tmp_path / "record"
    events = record / "events"
    lines = events.read_text().splitlines(keepends=True)
    events.write_text("".join(line for line in lines if not line.startswith("file ")))
    (bytes_,) = (path for path in record.iterdir() if path.stat().st_size == 16384)
    os.truncate(bytes_, 8192)  # so far the kill let it come
    recording.image(tmp_path / "another")
    assert (tmp_path / "another" / "a").read_bytes() == b"x" * 8192 + bytes(8192)


def test_an_inode_number_that_is_used_again_brings_no_old_bytes(recording: Recording, tmp_path: Path) -> None:
    program = """
for i in range(20):
    write('a', 'x' * 9000); sync('a'); os.unlink('a'); write('b', ''); sync('b'); os.unlink('b')
sync('.'); write('c', 'c'); sync('c')
"""
    image = after_the_cut(recording, tmp_path, program)
    assert names(image) == ["c"]
    assert (image / "c").read_text() == "c"


@pytest.mark.parametrize(
    ("between", "found"),
    [
        ("", b"a" * 4096 + b"b" * 4096 + b"c" * 4095 + b"!"),
        ("os.pwrite(fd, b'xxx', 4096)", b"a" * 4096 + b"xxx" + b"x" * 4093 + b"c" * 4095 + b"!"),
    ],
)
def test_after_a_failed_sync_the_next_one_leaves_out_the_pages_that_were_not_written_to_again(
    faults: Faults, recording: Recording, tmp_path: Path, between: str, found: bytes
) -> None:
    begin = """
fd = os.open('a', os.O_RDWR | os.O_CREAT)
os.write(fd, b'a' * 4096 + b'b' * 4096 + b'c' * 4096); os.fsync(fd)
os.pwrite(fd, b'x' * 4096 + b'y' * 4096, 4096)
try:
    os.fdatasync(fd)
    raise SystemExit("the sync did not fail")
except OSError:
    os.pwrite(fd, b'c' * 4095 + b'!', 8192)
"""
    with faults.rule("fdatasync", errno.EIO, times=1):
        image = after_the_cut(recording, tmp_path, f"{begin}{between}\nos.fdatasync(fd)", faults.environment)
    assert (image / "a").read_bytes() == found


def test_a_test_may_let_pages_survive_that_were_not_synced(recording: Recording, tmp_path: Path) -> None:
    program = "write('a', 'x' * 8192); sync('a'); write('a', 'y' * 8192)"
    after_the_cut(recording, tmp_path, program)
    recording.image(tmp_path / "another", survives=lambda path, page: path.name == "a" and page == 1)
    assert (tmp_path / "another" / "a").read_text() == "x" * 4096 + "y" * 4096


def test_a_new_log_file_has_its_size_wherever_its_name_is_durable(recording: Recording, tmp_path: Path) -> None:
    program = """
from pathlib import Path
from hanabi.store.files.segment import Segment
Segment.create(Path('00000000000000000000').absolute(), 65536)
"""
    after_the_cut(recording, tmp_path, program)
    recording.image(tmp_path / "another", sizes=False)
    assert (tmp_path / "another" / f"{0:020d}").stat().st_size == 65536


def test_a_broker_starts_on_the_image_of_its_own_store(recording: Recording, tmp_path: Path) -> None:
    with broker_process(tmp_path / "store", env=recording.environment) as broker:
        broker.wait_ready()
    recording.image(tmp_path / "image")
    with broker_process(tmp_path / "image") as broker:
        broker.wait_ready()
