"""Epochs of a log, and the file that Apache's brokers read, too."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.errors import StoreDamaged
from hanabi.replication.autoswitch.epochs import (
    Epoch,
    EpochFile,
    appended,
    common_end,
    cut,
    decode_epoch_file,
    dropped_before,
    encode_epoch_file,
    epoch_at,
    is_outdated,
)

ONE, TWO, THREE = Epoch(1, 0), Epoch(2, 100), Epoch(5, 250)


def test_the_file_is_byte_for_byte_as_apache_writes_it() -> None:
    raw = encode_epoch_file((ONE, TWO, THREE))
    assert raw.split(b"\n")[0] == b"3"
    assert raw.endswith(b"\n1-0\n2-100\n5-250\n")
    assert decode_epoch_file(raw) == (ONE, TWO, THREE)


def test_a_checksum_of_zero_is_not_checked_and_a_wrong_one_is_damage() -> None:
    assert decode_epoch_file(b"1\n0\n1-0\n") == (ONE,)
    with pytest.raises(StoreDamaged):
        decode_epoch_file(b"1\n5\n1-0\n")
    with pytest.raises(StoreDamaged):
        decode_epoch_file(b"2\n0\n1-0\n")
    with pytest.raises(StoreDamaged):
        decode_epoch_file(b"2\n0\n2-100\n1-0\n")


def test_epochs_survive_a_restart_and_a_damaged_file_is_replaced_by_its_backup(tmp_path: Path) -> None:
    file = EpochFile(tmp_path)
    assert (file.epochs, file.last) == ((), -1)
    file.use((ONE,))
    file.use((ONE, TWO))
    assert EpochFile(tmp_path).epochs == (ONE, TWO)
    (tmp_path / "epochFileCheckpoint").write_bytes(b"2\n1\n")
    assert EpochFile(tmp_path).epochs == (ONE,)


def test_an_epoch_without_a_byte_is_replaced_by_the_next() -> None:
    assert appended((ONE, TWO), Epoch(3, 100)) == (ONE, Epoch(3, 100))
    assert appended((ONE, TWO), Epoch(2, 300)) == (ONE, TWO)
    assert appended((ONE, TWO), THREE) == (ONE, TWO, THREE)


def test_a_cut_log_keeps_the_epochs_that_have_begun_before_the_cut() -> None:
    assert cut((ONE, TWO, THREE), 250) == (ONE, TWO)
    assert cut((ONE, TWO, THREE), 251) == (ONE, TWO, THREE)
    assert dropped_before((ONE, TWO, THREE), 100) == (TWO, THREE)
    assert dropped_before((ONE,), 1_000) == (ONE,)


def test_logs_agree_up_to_the_nearer_end_of_their_newest_common_epoch() -> None:
    assert common_end((ONE, TWO), 180, (ONE, TWO, THREE), 400) == 180
    assert common_end((ONE, TWO), 300, (ONE, TWO, THREE), 400) == 250
    assert common_end((ONE, Epoch(3, 100)), 300, (ONE, TWO), 400) == 100
    assert common_end((Epoch(7, 0),), 10, (ONE,), 10) is None


def test_a_byte_belongs_to_the_newest_epoch_that_has_begun() -> None:
    assert epoch_at((ONE, TWO), 99) == (ONE, 100)
    assert epoch_at((ONE, TWO), 100) == (TWO, None)
    assert epoch_at((TWO, THREE), 5) == (TWO, 250)
    assert epoch_at((), 5) == (Epoch(-1, 0), None)


@given(st.lists(st.integers(1, 50), max_size=5), st.lists(st.integers(1, 50), max_size=5), st.integers(0, 5))
def test_two_histories_agree_exactly_where_they_are_the_same(own: list[int], other: list[int], shared: int) -> None:
    def history(sizes: list[int], first: int) -> tuple[tuple[Epoch, ...], int]:
        epochs, at = [], 0
        for index, size in enumerate(sizes):
            epochs.append(Epoch(index + 1 if index < len(common) else first + index, at))
            at += size
        return tuple(epochs), at

    common = [10] * shared
    ours, our_end = history(common + own, 100)
    theirs, their_end = history(common + other, 1_000)
    agreed = common_end(ours, our_end, theirs, their_end)
    assert agreed == (10 * shared if shared else None)


def test_a_master_without_the_newest_epoch_of_a_log_was_deposed() -> None:
    own = (Epoch(1, 0), Epoch(3, 100))
    assert is_outdated((Epoch(1, 0),), own, 200)
    assert not is_outdated((Epoch(1, 0),), own, 100)  # epoch 3 has no byte
    assert not is_outdated((Epoch(1, 0), Epoch(3, 100)), own, 200)
    assert not is_outdated((Epoch(1, 0), Epoch(4, 100)), own, 200)
    assert not is_outdated((), own, 200)
