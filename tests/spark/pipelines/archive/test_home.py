"""The directory of an archive: wherever a step is cut off, it happened whole or not at all."""

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hanabi.errors import ConfigError, MQError, StoreDamaged
from hanabi.spark.pipelines.archive.home import OWN, STATES_KEPT, ArchiveHome, open_archive, writing_archive
from hanabi.spark.pipelines.archive.state import ArchivedQueue, ArchiveState, decode, encode
from hanabi.spark.pipelines.support.file_system import FileSystem


class Cut(BaseException):
    """The process would be gone here."""


class CutFiles(FileSystem):
    """A file system whose process dies before the change with number *at*."""

    def __init__(self, spark: SparkSession, url: str, at: int) -> None:
        super().__init__(spark, url)
        self._left = at

    def _ask(self, name: str, verb: str, question: Any) -> Any:
        if verb in ("written", "renamed", "deleted", "made"):
            if self._left == 0:
                raise Cut
            self._left -= 1
        return super()._ask(name, verb, question)


def visible(root: Path) -> dict[str, str]:
    """Return the files that any program would take for messages."""
    return {
        str(path.relative_to(root)): path.read_text()
        for path in sorted(root.rglob("*.parquet"))
        if OWN not in path.parts and not path.name.startswith(".")
    }


def step(home: ArchiveHome, *, moves: dict[str, str], deletes: list[str]) -> None:
    """Take a step that puts files with some content into place, and removes some."""
    staging, changed = home.staging(), list[tuple[str, str]]()
    for target, text in moves.items():
        source = f"{staging}/{target}"
        home.files.create(source, text.encode())
        changed.append((source, target))
    state = ArchiveState(version=home.state.version + 1, messages=len(moves), moves=changed, deletes=deletes)
    home.commit(state)


@pytest.mark.parametrize("deletes", [[], ["t/a.parquet", "t/b.parquet"]])
def test_a_step_that_is_cut_off_anywhere_happened_whole_or_not_at_all(
    spark: SparkSession, tmp_path: Path, deletes: list[str]
) -> None:
    before = {"t/a.parquet": "a", "t/b.parquet": "b"}
    after = {**({} if deletes else before), "t/c.parquet": "c", "u/d.parquet": "d"}
    step(ArchiveHome(FileSystem(spark, str(tmp_path / "model"))), moves=before, deletes=[])
    happened: list[bool] = []
    is_cut = True
    while is_cut:
        root = tmp_path / str(len(happened))
        shutil.copytree(tmp_path / "model", root)
        try:
            with writing_archive(CutFiles(spark, str(root), len(happened))) as home:
                step(home, moves={"t/c.parquet": "c", "u/d.parquet": "d"}, deletes=deletes)
            is_cut = False
        except Cut:
            is_cut = True
        seen = visible(root)
        assert seen.items() <= {**before, **after}.items()
        if deletes:  # what was joined is never there beside what it was joined from
            assert not (before.keys() & seen.keys() and after.keys() & seen.keys())
        with writing_archive(FileSystem(spark, str(root))) as again:
            happened.append(again.state.version == 2)
            assert visible(root) == (after if happened[-1] else before)
            assert not [name for name, _ in again.files.names(f"{OWN}/staging")]
    assert happened == sorted(happened), "once it happened, it stays so"
    assert happened[0] is False
    assert happened.count(True) > len(after)


def test_two_runs_at_once_are_told_apart(spark: SparkSession, tmp_path: Path) -> None:
    root = str(tmp_path / "archive")
    with writing_archive(FileSystem(spark, root)) as home:
        step(home, moves={"t/a.parquet": "a"}, deletes=[])
        with (
            pytest.raises(ConfigError, match="another run is archiving into"),
            writing_archive(FileSystem(spark, root)),
        ):
            pass
    one, other = ArchiveHome(FileSystem(spark, root)), ArchiveHome(FileSystem(spark, root))
    step(one, moves={"t/b.parquet": "b"}, deletes=[])
    with pytest.raises(MQError, match="another run is archiving into"):  # where nothing can be locked
        step(other, moves={"t/c.parquet": "c"}, deletes=[])
    assert visible(tmp_path / "archive") == {"t/a.parquet": "a", "t/b.parquet": "b"}


def test_a_run_that_is_many_steps_behind_another_loses_though_its_step_is_forgotten(
    spark: SparkSession, tmp_path: Path
) -> None:
    slow, quick = ArchiveHome(FileSystem(spark, str(tmp_path))), ArchiveHome(FileSystem(spark, str(tmp_path)))
    for number in range(STATES_KEPT + 3):
        step(quick, moves={f"t/{number}.parquet": ""}, deletes=[])
    before = visible(tmp_path)
    with pytest.raises(MQError, match="another run is archiving into"):
        step(slow, moves={"t/late.parquet": "late"}, deletes=[])
    assert visible(tmp_path) == before
    assert open_archive(spark, str(tmp_path)).state == quick.state


def test_a_move_that_was_a_copy_and_was_cut_off_before_its_source_was_deleted_is_done(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = tmp_path / "archive"
    home = ArchiveHome(FileSystem(spark, str(root)))
    source = f"{home.staging()}/t/a.parquet"
    for name in (source, "t/a.parquet"):
        home.files.create(name, b"a")
    written = root / OWN / "state" / "000000000001.json"
    written.parent.mkdir()
    written.write_bytes(encode(ArchiveState(version=1, messages=1, moves=[(source, "t/a.parquet")])))
    assert open_archive(spark, str(root)).state.version == 1
    assert visible(root) == {"t/a.parquet": "a"}
    assert not (root / source).exists()


def test_what_a_killed_run_left_is_removed_a_day_after_its_last_file(spark: SparkSession, tmp_path: Path) -> None:
    now_ms = 1_800_000_000_000
    day_s, folders = 86_400, {}
    for name, age_s in (("left", day_s + 60), ("busy", day_s - 60)):
        file = tmp_path / OWN / "staging" / name / "1" / "a.parquet"
        file.parent.mkdir(parents=True)
        file.touch()
        os.utime(file, (now_ms / 1_000 - age_s,) * 2)
        folders[name] = file.parent.parent
    os.utime(folders["busy"], (0, 0))  # the folder of a run is as old as its first step
    home = ArchiveHome(FileSystem(spark, str(tmp_path)), lambda: now_ms)
    home.clear_leftovers(is_alone=False)
    assert [name for name, folder in folders.items() if folder.exists()] == ["busy"]
    home.clear_leftovers(is_alone=True)
    assert not any(folder.exists() for folder in folders.values())


def test_only_the_last_states_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    home = ArchiveHome(FileSystem(spark, str(tmp_path)))
    for number in range(STATES_KEPT + 3):
        step(home, moves={f"t/{number}.parquet": ""}, deletes=[])
    assert len(list((tmp_path / OWN / "state").glob("*.json"))) == STATES_KEPT
    assert open_archive(spark, str(tmp_path)).state.version == STATES_KEPT + 3


def test_a_directory_that_is_no_archive_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not an archive: `hanabi pipeline run archive --to"):
        open_archive(spark, str(tmp_path / "none"))
    (tmp_path / "letters.txt").write_text("mine")
    with (
        pytest.raises(ConfigError, match=r"there is something in it: letters\.txt"),
        writing_archive(FileSystem(spark, str(tmp_path))),
    ):
        pass
    with pytest.raises(ConfigError, match="nofs"):
        FileSystem(spark, "nofs://here/there")


def test_a_damaged_state_is_refused() -> None:
    state = ArchiveState(version=3, queues=[ArchivedQueue(topic="t", broker="b", queue_id=0, first=1, end=2)])
    assert decode(encode(state), "x") == state
    with pytest.raises(StoreDamaged, match="x is not the state of an archive"):
        decode(encode(state)[:-5], "x")
    with pytest.raises(StoreDamaged, match="layout 9"):
        decode(encode(ArchiveState(layout=9)), "x")


def test_an_interrupt_waits_until_a_step_is_committed(spark: SparkSession, tmp_path: Path) -> None:
    class Interrupted(FileSystem):
        """Ctrl-C comes with every move."""

        def move(self, name: str, to: str) -> None:
            signal.raise_signal(signal.SIGINT)
            super().move(name, to)

    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    try:
        with writing_archive(Interrupted(spark, str(tmp_path / "archive"))) as home:
            step(home, moves={"t/a.parquet": "a", "t/b.parquet": "b"}, deletes=[])
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT], "one for both, when they were moved"
    assert visible(tmp_path / "archive") == {"t/a.parquet": "a", "t/b.parquet": "b"}
