"""Killing a broker loses no offset that was committed; and what is kept for that never moves one wrongly."""

import signal
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.broker.offsets.mapped_offsets import MOVED_AT_ONCE, NO_FILE, MappedOffsets, digest_of, read_mapped_offsets

FILE = "consumerOffset.json"
MARKS = "consumerOffset.marks"


def killed(path: Path) -> ConsumerOffsets:
    """Return the offsets of a broker that begins where another one was killed, unsaved."""
    return ConsumerOffsets(path)


def test_what_was_committed_after_the_last_save_is_there_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / FILE
    offsets = ConsumerOffsets(path)
    offsets.commit("g", "T", 0, 5)
    assert killed(path).find("g", "T", 0) == 5  # nothing was ever saved
    offsets = killed(path)
    offsets.save()
    offsets.commit("g", "T", 0, 9)
    offsets.commit("g", "New", 3, 1)
    after = killed(path)
    assert (after.of("g", "T"), after.of("g", "New"), len(after)) == ({0: 9}, {3: 1}, 2)
    after.save()
    (tmp_path / MARKS).unlink()
    assert ConsumerOffsets(path).of("g", "T") == {0: 9}


def test_a_real_kill_in_the_middle_of_commits_loses_none_that_was_told(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets\n"
        "offsets = ConsumerOffsets(Path(sys.argv[1]))\n"
        "for number in range(1, 10**9):\n"
        "    offsets.commit(f'g{number % 7}', 'T', number % 3, number)\n"
        "    if number % 1000 == 0: print(number, flush=True)\n"
        "    if number % 7_500 == 0: offsets.save()\n"
    )
    path = tmp_path / FILE
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        told = 0
        while told < 20_000:
            told = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        child.wait()
        told = max([told, *map(int, child.stdout.read().split("\n")[:-1])])
    offsets = ConsumerOffsets(path)
    for number in range(told - 20, told + 1):
        assert offsets.find(f"g{number % 7}", "T", number % 3) >= number


def test_an_offset_that_was_reset_stays_where_it_was_put(tmp_path: Path) -> None:
    path = tmp_path / FILE
    offsets = ConsumerOffsets(path)
    offsets.commit("g", "T", 0, 100)
    offsets.save()
    offsets.reset("g", "T", 0, 10)
    offsets.save()
    assert killed(path).find("g", "T", 0) == 10
    offsets = killed(path)
    offsets.commit("g", "T", 0, 12)
    assert killed(path).find("g", "T", 0) == 12


def test_a_group_that_was_removed_does_not_come_back(tmp_path: Path) -> None:
    path = tmp_path / FILE
    offsets = ConsumerOffsets(path)
    for group in ("gone", "kept"):
        offsets.commit(group, "T", 0, 7)
    offsets.save()
    offsets.remove_group("gone")
    offsets.save()
    offsets.commit("kept", "T", 0, 8)
    after = killed(path)
    assert (after.find("gone", "T", 0), after.find("kept", "T", 0)) == (-1, 8)


def test_a_clone_is_marked_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / FILE
    offsets = ConsumerOffsets(path)
    offsets.commit("from", "T", 0, 3)
    offsets.commit("to", "T", 0, 50)
    offsets.commit("to", "T", 1, 50)
    offsets.clone("from", "to", "T")
    offsets.save()
    assert killed(path).of("to", "T") == {0: 3}


def test_marks_of_another_file_are_left_alone(tmp_path: Path) -> None:
    """Another broker ran here, or somebody has put a backup in place."""
    path = tmp_path / FILE
    offsets = ConsumerOffsets(path)
    offsets.commit("g", "T", 0, 5)
    offsets.save()
    offsets.commit("g", "T", 0, 9)
    path.write_text('{"offsetTable":{"T@g":{0:2}}}')
    assert killed(path).find("g", "T", 0) == 2


def test_a_kill_between_the_two_steps_of_a_save_is_as_good_as_one_before_or_after(tmp_path: Path) -> None:
    path, marks = tmp_path / FILE, tmp_path / MARKS
    offsets = ConsumerOffsets(path)
    offsets.commit("g", "T", 0, 5)
    offsets.save()
    old = path.read_bytes()
    offsets.commit("g", "T", 0, 6)
    offsets.save()
    new = path.read_bytes()
    offsets.commit("g", "T", 0, 7)
    assert offsets._marks is not None
    offsets._marks._stamp(digest_of(old), digest_of(new))
    kept = marks.read_bytes()
    for content in (old, new):
        path.write_bytes(content)
        marks.write_bytes(kept)
        assert killed(path).find("g", "T", 0) == 7


def test_marks_that_are_older_than_the_file_move_nothing_back(tmp_path: Path) -> None:
    # A power cut may leave pages as they were.
    path, marks = tmp_path / FILE, tmp_path / MARKS
    path.write_text('{"offsetTable":{"T@g":{0:20}}}')
    MappedOffsets(marks, [(("T@g", 0), 15)], digest_of(path.read_bytes()))
    assert killed(path).find("g", "T", 0) == 20


def test_a_full_disk_costs_the_marks_and_not_the_commits(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    (small_disk / "ballast").write_bytes(bytes(32 * 1024))
    offsets = ConsumerOffsets(small_disk / FILE)
    assert "so a kill will lose commits" in caplog.text
    offsets.commit("g", "T", 0, 5)
    assert offsets.find("g", "T", 0) == 5


def test_the_file_grows_and_is_cleaned_of_what_was_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    marks = MappedOffsets(path, [], NO_FILE)
    for number in range(5_000):
        marks.put(f"Topic{number}@group", 0, number)
    for number in range(4_990):
        marks.forget(f"Topic{number}@group", [0])
    for number in range(20_000):
        marks.put("Churn@group", number, 1)
        marks.forget("Churn@group", [number])
    marks.put("Topic4999@group", 0, 6_000)
    found = read_mapped_offsets(path.read_bytes())
    assert found is not None
    assert found.offsets == {(f"Topic{number}@group", 0): number for number in range(4_990, 4_999)} | {
        ("Topic4999@group", 0): 6_000
    }
    assert path.stat().st_size < 2_000_000


@pytest.mark.long
def test_no_flipped_bit_moves_an_offset_to_where_nobody_was(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, marks = tmp_path / FILE, tmp_path / MARKS
    offsets = ConsumerOffsets(path)
    offsets.commit("g", "T", 0, 90)
    offsets.commit("h", "Longer", 7, 5)
    offsets.save()
    offsets.commit("g", "T", 0, 100)
    offsets.commit("h", "Longer", 7, 6)
    json, whole = path.read_bytes(), marks.read_bytes()
    for bit in range(8 * 160):  # all that is used, and some behind
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(json)
        marks.write_bytes(damaged)
        found = killed(path)
        assert len(found) == 2
        assert found.find("g", "T", 0) in (90, 100)
        assert found.find("h", "Longer", 7) in (5, 6)
    assert "marks are damaged" in caplog.text


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1), st.text(min_size=1, max_size=30))
def test_any_offset_is_marked_as_it_is_or_not_at_all(
    tmp_path_factory: pytest.TempPathFactory, offset: int, queue_id: int, key: str
) -> None:
    path = tmp_path_factory.mktemp("marks") / "marks"
    marks = MappedOffsets(path, [((key, queue_id), 1)], NO_FILE)
    marks.put(key, queue_id, offset)
    found = read_mapped_offsets(path.read_bytes())
    assert found is not None
    assert found.damaged == 0
    assert found.offsets == ({(key, queue_id): offset} if offset < 2**48 - 1 else {})


def test_the_form_without_checksums_is_read_and_its_leaps_are_not_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / FILE
    path.write_text('{"offsetTable":{"T@g":{0:90,1:90}}}')
    head = struct.pack("8s16s16s", b"HANABIO1", digest_of(path.read_bytes()), digest_of(path.read_bytes()))
    records = b"".join(struct.pack("=qiI8s", *record, 3, b"T@g") for record in ((100, 0), (100 | 1 << 36, 1)))
    (tmp_path / MARKS).write_bytes(head + records + bytes(1_000))
    assert killed(path).of("g", "T") == {0: 100, 1: 90}
    assert "offset 68719476836 is implausible" in caplog.text


@pytest.mark.parametrize("backup", [None, b""])
def test_offsets_of_an_empty_file_without_a_backup_are_taken_from_the_marks(
    tmp_path: Path, backup: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / FILE
    offsets = ConsumerOffsets(path)
    offsets.commit("g", "T", 0, 5)
    offsets.save()
    offsets.commit("g", "T", 0, 9)
    path.write_bytes(b"")
    if backup is not None:
        path.with_name(FILE + ".bak").write_bytes(backup)
    after = killed(path)
    assert after.find("g", "T", 0) == 9
    assert f"{path} is empty: 1 offsets are taken from its marks" in caplog.text
    after.save()
    assert ConsumerOffsets(path).find("g", "T", 0) == 9


@pytest.mark.parametrize("marks", ["none", "gone back"])
def test_an_empty_file_that_nothing_replaces_is_told_with_what_it_means(
    tmp_path: Path, marks: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / FILE
    offsets = ConsumerOffsets(path)
    offsets.commit("g", "T", 0, 5)
    offsets.save()
    if marks == "none":
        (tmp_path / MARKS).unlink()
    else:
        offsets.reset("g", "T", 0, 3)  # and the file does not say so yet
    path.write_bytes(b"")
    assert killed(path).find("g", "T", 0) == -1
    assert f"{path} is empty: no group has an offset now" in caplog.text
    assert "hanabi offset reset" in caplog.text


def test_a_new_store_is_no_lost_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ConsumerOffsets(tmp_path / FILE)
    assert not caplog.text


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 300))
def test_any_bytes_are_read_without_an_error(raw: bytes, cut: int) -> None:
    read_mapped_offsets(raw)
    read_mapped_offsets(b"HANABIO1" + raw)
    read_mapped_offsets(b"HANABIO2" + raw)
    assert read_mapped_offsets((b"HANABIO1" + raw)[: min(cut, 39)]) is None


def test_a_file_that_is_full_is_followed_by_another_a_few_marks_at_a_time(tmp_path: Path) -> None:
    # All at once, a million of them would hold up the event loop for a second.
    path = tmp_path / "marks"
    marks = MappedOffsets(path, [], NO_FILE)
    written: list[int] = []
    lines = Counter[int]()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name == "append":
            lines[len(written)] += 1

    sys.setprofile(count)
    try:
        for number in range(30_000):
            marks.put(f"Topic{number}@group", 0, number)
            written.append(number)
    finally:
        sys.setprofile(None)
    assert max(lines.values()) <= MOVED_AT_ONCE + 2
    found = read_mapped_offsets(path.read_bytes())
    assert found is not None
    assert found.offsets == {(f"Topic{number}@group", 0): number for number in range(30_000)}


@given(
    changes=st.lists(st.tuples(st.integers(0, 3_000), st.sampled_from(["put", "put", "put", "forget"])), max_size=400),
    first=st.integers(0, 2_000),
)
@settings(max_examples=30, deadline=None)
def test_a_kill_at_any_moment_of_a_move_finds_every_mark(
    changes: list[tuple[int, str]], first: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("marks") / "marks"
    marks = MappedOffsets(path, [], NO_FILE)
    expected: dict[tuple[str, int], int] = {}
    puts = [(number, "put") for number in range(first)]
    for step, (number, change) in enumerate(puts + changes):
        key = f"T{number}@g"
        if change == "put":
            marks.put(key, 0, step)
            expected[key, 0] = step
        else:
            marks.forget(key, [0])
            expected.pop((key, 0), None)
        if step >= first or step % 97 == 0:
            found = read_mapped_offsets(path.read_bytes())
            assert found is not None
            assert found.offsets == expected
