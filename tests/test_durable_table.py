"""Tables as files: the newest or the one before it, never half of one."""

import subprocess
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanabi.durable_table import DurableTable
from hanabi.errors import StoreDamaged, StoreUnwritable
from tests.golden_records import golden_store
from tests.store.open_files import no_free_descriptors

Numbers = dict[str, int]


def table_at(path: Path) -> DurableTable[Numbers]:
    return DurableTable(path, encode=msgspec.json.encode, decode=msgspec.json.Decoder(Numbers).decode)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "offsets.json"


def backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")


def saved_twice(path: Path) -> DurableTable[Numbers]:
    table = table_at(path)
    table.save({"a": 1})
    table.save({"a": 2})
    return table


def test_a_table_that_was_never_saved_is_none(path: Path) -> None:
    assert table_at(path).load() is None


def test_what_was_saved_is_loaded_and_the_one_before_is_the_backup(path: Path) -> None:
    saved_twice(path)
    assert table_at(path).load() == {"a": 2}
    assert backup(path).read_bytes() == b'{"a":1}'
    assert sorted(file.name for file in path.parent.iterdir()) == ["offsets.json", "offsets.json.bak"]


@pytest.mark.parametrize("content", [b"", b"{", b'{"a":"b"}', b"[1]", b"\xff\xfe", b'{"a":2'])
def test_an_unreadable_table_is_read_from_its_backup(
    path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    saved_twice(path)
    path.write_bytes(content)
    assert table_at(path).load() == {"a": 1}
    assert f"read {backup(path)} instead" in caplog.text


def test_a_missing_table_is_read_from_its_backup(path: Path) -> None:
    saved_twice(path)
    path.unlink()  # what Apache leaves when it crashes between deleting and renaming
    table = table_at(path)
    assert table.load() == {"a": 1}
    table.save({"a": 1})
    assert path.read_bytes() == b'{"a":1}'


def test_a_good_backup_is_never_replaced_by_an_unreadable_table(path: Path) -> None:
    saved_twice(path)
    path.write_bytes(b"{")
    table = table_at(path)
    assert table.load() == {"a": 1}
    table.save({"a": 3})
    assert (path.read_bytes(), backup(path).read_bytes()) == (b'{"a":3}', b'{"a":1}')


def test_two_unreadable_files_are_an_error_that_names_both(path: Path) -> None:
    saved_twice(path)
    path.write_bytes(b"{")
    backup(path).write_bytes(b"[")
    with pytest.raises(StoreDamaged, match=r"offsets\.json: .*offsets\.json\.bak: "):
        table_at(path).load()


def test_an_unchanged_table_is_not_written_again(path: Path) -> None:
    table = saved_twice(path)
    before = path.stat().st_ino
    table.save({"a": 2})
    assert path.stat().st_ino == before
    assert backup(path).read_bytes() == b'{"a":1}'


def test_an_empty_table_without_a_backup_is_told(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.parent.mkdir()
    path.write_bytes(b"")
    table = table_at(path)
    assert table.load() is None
    assert table.was_empty
    assert f"{path} is empty and there is no other copy" in caplog.text


def test_a_half_written_temporary_file_is_of_no_consequence(path: Path) -> None:
    saved_twice(path)
    path.with_name(path.name + ".tmp").write_bytes(b'{"a":3')
    table = table_at(path)
    assert table.load() == {"a": 2}
    table.save({"a": 3})
    assert table_at(path).load() == {"a": 3}


def test_a_full_disk_leaves_the_table_as_it_was(small_disk: Path) -> None:
    path = small_disk / "offsets.json"
    table = table_at(path)
    table.save({"a": 1})
    (small_disk / "ballast").write_bytes(bytes(49_152))
    with pytest.raises(Exception, match="no room on the disk for writing"):
        table.save({"a" * 30_000: 1})
    assert table_at(path).load() == {"a": 1}
    assert sorted(file.name for file in small_disk.glob("offsets*")) == ["offsets.json", "offsets.json.bak"]
    (small_disk / "ballast").unlink()
    table.save({"a": 2})
    assert table_at(path).load() == {"a": 2}


def test_a_table_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("in the way")
    with pytest.raises(StoreUnwritable, match="writing"):
        table_at(tmp_path / "config" / "offsets.json").save({})


@settings(deadline=None, max_examples=30)
@given(tables=st.lists(st.dictionaries(st.text(max_size=5), st.integers(0, 1000)), min_size=1, max_size=5))
def test_the_last_saved_table_is_the_one_that_is_loaded(
    tmp_path_factory: pytest.TempPathFactory, tables: list[Numbers]
) -> None:
    path = tmp_path_factory.mktemp("table") / "numbers.json"
    table = table_at(path)
    for numbers in tables:
        table.save(numbers)
    assert table_at(path).load() == tables[-1]


def test_apaches_files_have_the_names_we_read(tmp_path: Path) -> None:
    store = golden_store("store-clean.tar.gz")
    for name in ("topics.json", "subscriptionGroup.json"):
        for file in (name, name + ".bak"):
            (tmp_path / file).write_bytes(store[f"config/{file}"])
        table: DurableTable[dict[str, object]] = DurableTable(
            tmp_path / name, encode=msgspec.json.encode, decode=msgspec.json.Decoder(dict[str, object]).decode
        )
        newest = table.load()
        (tmp_path / name).unlink()
        assert newest
        assert newest != table.load()


def test_a_table_that_could_not_be_written_leaves_nothing_behind(path: Path) -> None:
    path.mkdir(parents=True)  # a folder cannot be replaced by a file
    with pytest.raises(StoreUnwritable, match="writing"):
        table_at(path).save({"a": 1})
    assert [file.name for file in path.parent.iterdir()] == ["offsets.json"]


def test_a_path_that_is_none_is_a_clear_error(tmp_path: Path) -> None:
    table = table_at(tmp_path / "off\0sets.json")
    with pytest.raises(StoreDamaged, match="null byte"):
        table.load()
    with pytest.raises(StoreUnwritable, match="null byte"):
        table.check_writable()


def test_whether_a_table_can_be_written_is_known_before_the_first_time(path: Path) -> None:
    table = table_at(path)
    table.check_writable()
    assert list(path.parent.iterdir()) == []
    path.with_name("offsets.json.tmp").mkdir()
    with pytest.raises(StoreUnwritable, match=r"writing .*offsets\.json failed"):
        table.check_writable()


def test_a_full_disk_does_not_keep_a_server_from_starting(small_disk: Path) -> None:
    (small_disk / "ballast").touch()
    subprocess.run(["mount", "-o", "remount,nr_inodes=2", str(small_disk)], check=True)
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "one-more").touch()  # there is not even room for a name
    table_at(small_disk / "offsets.json").check_writable()


def test_an_older_table_is_not_read_because_the_process_lacks_descriptors(path: Path) -> None:
    saved_twice(path)
    table = table_at(path)
    with no_free_descriptors(), pytest.raises(StoreUnwritable, match="Too many open files"):
        table.load()
    assert table.load() == {"a": 2}
