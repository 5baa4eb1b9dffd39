"""One mapped file: what it promises to its writer, to its readers, and to the disk."""

import mmap
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanabi.errors import StoreDamaged, StoreUnwritable
from hanabi.store.files.blocks import STEP_BYTES_MAX, STEP_BYTES_MIN
from hanabi.store.files.segment import Segment, segment_name
from tests.store.open_files import open_files
from tests.store.scarce_memory import no_large_maps

SIZE = 16_384


@pytest.fixture
def segment(tmp_path: Path) -> Segment:
    return Segment.create(tmp_path / segment_name(SIZE), SIZE)


def bytes_at(segment: Segment, position: int, size: int) -> bytes | None:
    view = segment.slice(position, size)
    return None if view is None else bytes(view)


def is_mapped(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text()


def allocated_bytes(segment: Segment) -> int:
    return segment.path.stat().st_blocks * 512


def test_a_new_segment_has_its_full_size_and_the_blocks_of_its_first_step(tmp_path: Path) -> None:
    segment = Segment.create(tmp_path / segment_name(SIZE), 1 << 30)
    assert segment.path.stat().st_size == 1 << 30
    assert STEP_BYTES_MIN <= segment.allocated <= allocated_bytes(segment) < 2 * STEP_BYTES_MIN
    assert (segment.base_offset, segment.written, segment.flushed) == (SIZE, 0, 0)


def test_nothing_is_written_where_there_are_no_blocks(tmp_path: Path) -> None:
    segment = Segment.create(tmp_path / segment_name(0), 1 << 30)
    for _ in range(40):
        segment.append(bytes(1 << 20))
        assert segment.written <= segment.allocated <= allocated_bytes(segment)
    assert segment.allocated <= segment.written + STEP_BYTES_MAX


def test_the_next_step_is_allocated_when_half_of_the_last_is_used(tmp_path: Path) -> None:
    segment = Segment.create(tmp_path / segment_name(0), 1 << 30)
    before = segment.allocated
    segment.append(bytes(STEP_BYTES_MIN // 2 - 1))
    segment.allocate_ahead()
    assert segment.allocated == before
    segment.append(b"xxxxxxxxxxxxxxxx" * 1024)
    segment.allocate_ahead()
    assert segment.allocated >= before + STEP_BYTES_MIN


def test_what_is_allocated_later_keeps_what_is_written(segment: Segment) -> None:
    segment.append(b"alpha")
    segment.truncate_to(3)
    segment.append(b"x" * 5_000)
    assert segment.path.read_bytes()[:4] == b"alpx"


def test_what_is_appended_is_read_back_without_a_copy(segment: Segment) -> None:
    segment.append(b"alpha")
    segment.append(memoryview(b"omega"))
    view = segment.slice(0, 10)
    assert view is not None
    assert bytes(view) == b"alphaomega"
    assert view.readonly
    assert isinstance(view.obj, mmap.mmap)
    assert bytes(segment.tail(5)) == b"omega"
    assert bytes(segment.tail(10)) == b""


@pytest.mark.parametrize(("position", "size"), [(0, 6), (5, 1), (-1, 2), (0, -1), (SIZE, 1), (3, SIZE)])
def test_bytes_that_are_not_all_written_are_not_given(segment: Segment, position: int, size: int) -> None:
    segment.append(b"alpha")
    assert segment.slice(position, size) is None


def test_an_append_that_does_not_fit_changes_nothing(segment: Segment) -> None:
    segment.append(b"x" * (SIZE - 3))
    with pytest.raises(IndexError):
        segment.append(b"four")
    assert segment.written == SIZE - 3
    assert segment.path.read_bytes()[-3:] == bytes(3)


def test_filling_writes_the_header_and_counts_the_rest_as_written(segment: Segment) -> None:
    segment.append(b"alpha")
    segment.fill(b"BLANK")
    assert segment.written == SIZE
    assert segment.path.read_bytes() == b"alphaBLANK".ljust(SIZE, b"\0")


def test_flushing_counts_what_was_written_before_it(segment: Segment) -> None:
    segment.append(b"alpha")
    segment.flush()
    segment.append(b"omega")
    assert (segment.flushed, segment.written) == (5, 10)


def test_a_file_of_another_size_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / segment_name(0)
    path.write_bytes(b"short")
    with pytest.raises(StoreDamaged, match=f"{path} has 5 bytes"):
        Segment.open(path, SIZE)


def test_a_file_that_exists_is_not_created_again(segment: Segment) -> None:
    segment.append(b"precious")
    with pytest.raises(StoreUnwritable, match="File exists"):
        Segment.create(segment.path, SIZE)
    assert segment.path.read_bytes().startswith(b"precious")


def test_an_opened_segment_counts_as_written_to_its_end(segment: Segment) -> None:
    segment.append(b"alpha")
    segment.close()
    again = Segment.open(segment.path, SIZE)
    assert again.written == again.flushed == SIZE
    assert bytes(again.tail(0)[:6]) == b"alpha\0"


def test_a_segment_opened_for_reading_cannot_be_written(segment: Segment) -> None:
    segment.close()
    reader = Segment.open(segment.path, SIZE, writable=False)
    reader.written = 0
    with pytest.raises(TypeError):
        reader.append(b"x")


# Lifetimes


def test_a_deleted_segment_is_gone_from_the_directory_but_not_from_its_readers(tmp_path: Path) -> None:
    segment = Segment.create(tmp_path / segment_name(0), SIZE)
    segment.append(b"still here")
    view, path = segment.slice(0, 10), segment.path
    segment.delete()
    del segment
    assert not path.exists()
    assert is_mapped(path)
    assert view is not None
    assert bytes(view) == b"still here"
    del view
    assert not is_mapped(path)


def test_a_reader_in_the_middle_of_a_deleted_segment_may_go_on_slicing(segment: Segment) -> None:
    segment.append(b"alphaomega")
    segment.delete()
    assert bytes_at(segment, 5, 5) == b"omega"


def test_closing_under_a_reader_defers_the_unmapping(tmp_path: Path) -> None:
    segment = Segment.create(tmp_path / segment_name(0), SIZE)
    segment.append(b"still here")
    path, view = segment.path, segment.slice(0, 10)
    assert view is not None
    part = view[6:]
    segment.close()
    del segment, view
    assert bytes(part) == b"here"
    assert is_mapped(path)
    part.release()
    assert not is_mapped(path)


def test_a_dropped_segment_closes_its_descriptors(tmp_path: Path) -> None:
    segment = Segment.create(tmp_path / segment_name(0), SIZE)
    assert open_files(tmp_path)
    del segment
    assert not open_files(tmp_path)


# Truncation


@settings(deadline=None, max_examples=40)  # every example waits for the disk
@given(written=st.binary(min_size=1, max_size=9_000), data=st.data())
def test_nothing_behind_a_truncation_survives_on_the_disk(
    tmp_path_factory: pytest.TempPathFactory, written: bytes, data: st.DataObject
) -> None:
    segment = Segment.create(tmp_path_factory.mktemp("truncate") / segment_name(0), SIZE)
    segment.append(written)
    position = data.draw(st.integers(0, len(written)))
    segment.truncate_to(position)
    assert segment.path.read_bytes() == written[:position].ljust(SIZE, b"\0")
    assert segment.written == position
    assert segment.flushed == 0  # the zeros are not on the disk yet
    segment.append(b"new")
    assert bytes_at(segment, position, 3) == b"new"


def test_a_sparse_file_gets_blocks_before_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / segment_name(0)  # as Apache makes them
    with path.open("wb") as file:
        file.truncate(SIZE)
    segment = Segment.open(path, SIZE)
    segment.truncate_to(100)
    assert (path.stat().st_blocks, segment.allocated) == (0, 100)
    segment.append(b"alpha")
    assert path.stat().st_blocks * 512 >= SIZE


# Faults


def test_a_file_deleted_by_someone_else_is_told_at_the_next_flush(segment: Segment) -> None:
    segment.append(b"alpha")
    segment.path.unlink()
    with pytest.raises(StoreDamaged, match="deleted while in use"):
        segment.flush()
    assert segment.flushed == 0


def test_a_file_cut_by_someone_else_is_told_at_the_next_flush(segment: Segment) -> None:
    segment.append(b"alpha")
    os.truncate(segment.path, 100)
    with pytest.raises(StoreDamaged, match="cut to 100"):
        segment.flush()


def test_a_missing_directory_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / segment_name(0)
    with pytest.raises(StoreUnwritable, match=f"creating {path} failed: No such file"):
        Segment.create(path, SIZE)


def test_a_file_that_cannot_be_sized_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / segment_name(0)
    with pytest.raises(StoreUnwritable, match="reserving"):
        Segment.create(path, 1 << 62)
    assert not path.exists()


def test_a_file_that_cannot_be_mapped_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / segment_name(0)
    with no_large_maps(), pytest.raises(StoreUnwritable, match=r"mapping .*: Cannot allocate memory"):
        Segment.create(path, 1 << 30)
    assert not path.exists()
    assert not open_files(tmp_path)


# Warm-up


def test_a_warmed_segment_is_all_zeros_and_ready(tmp_path: Path) -> None:
    segment = Segment.create(tmp_path / segment_name(0), SIZE, warm=True)
    assert segment.path.read_bytes() == bytes(SIZE)
    segment.append(b"alpha")
    segment.unlock_memory()
    assert bytes_at(segment, 0, 5) == b"alpha"


def test_pages_that_are_only_on_the_disk_are_known_and_loaded(tmp_path: Path) -> None:
    size = 1 << 20
    segment = Segment.create(tmp_path / segment_name(0), size)
    segment.append(b"x" * size)
    assert segment.is_in_memory(5, size)
    segment.flush()
    segment.close()
    with (tmp_path / segment_name(0)).open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    again = Segment.open(tmp_path / segment_name(0), size)
    if again.is_in_memory(0, size):
        pytest.skip("this file system keeps its pages")
    again.check_readable(0, size // 2)
    assert again.is_in_memory(0, size // 2)
    again.read_ahead(size // 2, 2 * size)
    assert again.is_in_memory(7, 7)
    again.close()


def test_reading_what_was_written_by_calls_makes_no_pages_behind_it(tmp_path: Path) -> None:
    size, piece = 64 << 20, memoryview(b"x" * 100_000)
    segment = Segment.create(tmp_path / segment_name(0), size)
    segment.allocate(size)
    assert segment.map[0] == 0  # as a recovery looks for the end: the kernel begins to read ahead
    while segment.written < 16 << 20:
        segment.write(piece)
        assert segment.tail(segment.written - len(piece)) == piece
    behind = segment.written + mmap.PAGESIZE
    assert not any(segment.is_in_memory(at, at + 1) for at in range(behind, size, mmap.PAGESIZE))
    while segment.written < size:
        segment.write(piece[: size - segment.written])
    assert segment.tail(size - 9) == b"x" * 9
    segment.close()
