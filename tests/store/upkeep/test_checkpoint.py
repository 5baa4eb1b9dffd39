"""The checkpoint file: Apache's bytes, its rules, and what a damaged one counts for."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanabi.errors import StoreUnwritable
from hanabi.store.upkeep.checkpoint import CHECKPOINT_BYTES, Checkpoint
from tests.golden_records import STORES, golden_store

NOW_MS = 1 << 41


@pytest.mark.parametrize("name", STORES)
def test_apaches_checkpoint_is_read_and_written_again_byte_for_byte(name: str, tmp_path: Path) -> None:
    golden = golden_store(name)["checkpoint"]
    path = tmp_path / "checkpoint"
    path.write_bytes(golden)
    checkpoint = Checkpoint.load(path, now_ms=NOW_MS)
    assert checkpoint.log_ms == int.from_bytes(golden[:8], "big") > 0
    path.unlink()
    checkpoint.flush()
    assert path.read_bytes() == golden


def test_a_checkpoint_comes_back_as_it_was_flushed(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    Checkpoint(path, log_ms=30_000, queues_ms=20_000, index_ms=10_000).flush()
    assert path.stat().st_size == CHECKPOINT_BYTES
    loaded = Checkpoint.load(path, now_ms=NOW_MS)
    assert (loaded.log_ms, loaded.queues_ms, loaded.index_ms) == (30_000, 20_000, 10_000)


@pytest.mark.parametrize(
    ("log_ms", "queues_ms", "index_ms", "safe", "with_index"),
    [
        (30_000, 20_000, 10_000, 17_000, 10_000),  # three seconds of slack, but none for the index
        (20_000, 30_000, 40_000, 17_000, 17_000),
        (2_000, 30_000, 40_000, 0, 0),
        (30_000, 30_000, 0, 27_000, 0),
    ],
)
def test_what_is_safe_is_what_apache_says(
    log_ms: int, queues_ms: int, index_ms: int, safe: int, with_index: int
) -> None:
    checkpoint = Checkpoint(Path("unused"), log_ms=log_ms, queues_ms=queues_ms, index_ms=index_ms)
    assert (checkpoint.safe_ms, checkpoint.safe_with_index_ms) == (safe, with_index)


def test_a_missing_checkpoint_counts_as_zeros(tmp_path: Path) -> None:
    assert Checkpoint.load(tmp_path / "checkpoint", now_ms=NOW_MS).safe_ms == 0


@settings(deadline=None, max_examples=50)
@given(content=st.binary(max_size=64))
def test_any_content_gives_times_that_are_not_in_the_future(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("checkpoint") / "checkpoint"
    path.write_bytes(content)
    loaded = Checkpoint.load(path, now_ms=NOW_MS)
    for stamp in (loaded.log_ms, loaded.queues_ms, loaded.index_ms):
        assert 0 <= stamp <= NOW_MS


def test_a_time_in_the_future_is_not_believed_and_said_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "checkpoint"
    Checkpoint(path, log_ms=NOW_MS + 1, queues_ms=5_000, index_ms=5_000).flush()
    assert Checkpoint.load(path, now_ms=NOW_MS).safe_ms == 0
    assert str(path) in caplog.text


def test_a_checkpoint_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "checkpoint"
    with pytest.raises(StoreUnwritable, match=f"writing {path}"):
        Checkpoint(path).flush()
