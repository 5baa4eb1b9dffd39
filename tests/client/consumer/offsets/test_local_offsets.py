"""Offsets in a file: Apache's file, read and written."""

import asyncio
import os
from pathlib import Path

import pytest

from hanabi.client.consumer.offsets.file_format import decode_offsets, encode_offsets
from hanabi.client.consumer.offsets.offset_store import LocalOffsets, ReadFrom
from hanabi.errors import MQError, StoreDamaged
from hanabi.message import MessageQueue

# Written by LocalFileOffsetStore of Apache 4.9.8, and byte for byte the same by that of 5.3.3.
APACHES = (Path(__file__).parent / "apache_offsets.json").read_bytes()
IN_APACHES = {
    MessageQueue("Orders", "broker-a", 0): 40,
    MessageQueue("Orders", "broker-a", 1): 41,
    MessageQueue("Orders", "broker-a", 2): 42,
    MessageQueue("shop%Ünïcode", 'broker "b"', 7): 1_234_567_890_124,
}
FIRST, SECOND = MessageQueue("Orders", "broker-a", 0), MessageQueue("Orders", "broker-a", 1)


async def opened(root: Path) -> LocalOffsets:
    offsets = LocalOffsets("10.0.0.1@4711", "billing", directory=root)
    await offsets.load()
    return offsets


def saved(root: Path) -> Path:
    return root / "10.0.0.1@4711" / "billing" / "offsets.json"


async def read(offsets: LocalOffsets, queue: MessageQueue, where: ReadFrom = ReadFrom.STORE) -> int | None:
    return await offsets.read(queue, where)


def test_apaches_file_is_read() -> None:
    assert decode_offsets(APACHES) == IN_APACHES


def test_our_file_has_the_very_bytes_of_apaches_but_for_the_order() -> None:
    ours, apaches = encode_offsets(IN_APACHES), APACHES
    begin, end = b'{\n\t"offsetTable":{', b"\n\t}\n}"
    assert ours.startswith(begin)
    assert ours.endswith(end)

    def entries(content: bytes) -> list[bytes]:
        return sorted(content.removeprefix(begin).removesuffix(end).replace(b",{", b"\x00{").split(b"\x00"))

    assert entries(ours) == entries(apaches)
    assert decode_offsets(ours) == IN_APACHES


def test_a_table_without_a_queue_is_a_file_too() -> None:
    assert decode_offsets(encode_offsets({})) == {}


async def test_offsets_survive_a_restart_where_apache_has_them(tmp_path: Path) -> None:
    offsets = await opened(tmp_path)
    assert await read(offsets, FIRST) is None
    offsets.update(FIRST, 5, increase_only=True)
    offsets.update(SECOND, 7, increase_only=True)
    await offsets.persist([FIRST, SECOND])
    assert saved(tmp_path).exists()
    again = await opened(tmp_path)
    assert (await read(again, FIRST), await read(again, SECOND)) == (5, 7)


async def test_a_file_of_apache_is_taken_over(tmp_path: Path) -> None:
    saved(tmp_path).parent.mkdir(parents=True)
    saved(tmp_path).write_bytes(APACHES)
    offsets = await opened(tmp_path)
    assert await read(offsets, FIRST) == 40
    offsets.update(FIRST, 44, increase_only=True)
    await offsets.persist([FIRST])
    assert decode_offsets(saved(tmp_path).read_bytes()) == {**IN_APACHES, FIRST: 44}
    assert decode_offsets(saved(tmp_path).with_suffix(".json.bak").read_bytes()) == IN_APACHES


async def test_only_what_is_asked_for_is_saved_and_the_rest_of_the_file_stays(tmp_path: Path) -> None:
    offsets = await opened(tmp_path)
    for queue in (FIRST, SECOND):
        offsets.update(queue, 1, increase_only=True)
    await offsets.persist([FIRST, SECOND])
    offsets.update(FIRST, 2, increase_only=True)
    offsets.update(SECOND, 2, increase_only=True)
    await offsets.persist([SECOND])
    again = await opened(tmp_path)
    assert (await read(again, FIRST), await read(again, SECOND)) == (1, 2)


async def test_the_backup_is_read_when_the_file_is_torn(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    offsets = await opened(tmp_path)
    for offset in (3, 4):
        offsets.update(FIRST, offset, increase_only=True)
        await offsets.persist([FIRST])
    saved(tmp_path).write_bytes(saved(tmp_path).read_bytes()[:20])
    assert await read(await opened(tmp_path), FIRST) == 3
    assert "offsets.json.bak" in caplog.text


async def test_when_nothing_can_be_read_it_says_so_and_does_not_begin_anew(tmp_path: Path) -> None:
    saved(tmp_path).parent.mkdir(parents=True)
    saved(tmp_path).write_bytes(b'{"offsetTable":{{"brokerName"')
    with pytest.raises(StoreDamaged, match=r"offsets\.json"):
        await opened(tmp_path)


async def test_a_file_in_the_place_of_the_directory_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "10.0.0.1@4711").write_text("in the way")
    offsets = LocalOffsets("10.0.0.1@4711", "billing", directory=tmp_path)
    with pytest.raises(MQError, match=r"offsets\.json"):
        await offsets.load()


async def test_memory_goes_back_only_where_that_is_meant(tmp_path: Path) -> None:
    offsets = await opened(tmp_path)
    offsets.update(FIRST, 5, increase_only=True)
    offsets.update(FIRST, 3, increase_only=True)
    assert offsets.memory(FIRST) == 5
    offsets.update(FIRST, 3, increase_only=False)
    assert offsets.memory(FIRST) == 3
    offsets.remove(FIRST)
    assert offsets.memory(FIRST) is None


async def test_where_to_read_is_the_callers_choice(tmp_path: Path) -> None:
    offsets = await opened(tmp_path)
    offsets.update(FIRST, 5, increase_only=True)
    await offsets.persist([FIRST])
    offsets.update(FIRST, 9, increase_only=True)
    assert await read(offsets, FIRST, ReadFrom.MEMORY) == 9
    assert await read(offsets, FIRST, ReadFrom.MEMORY_FIRST) == 9
    assert await read(offsets, FIRST, ReadFrom.STORE) == 5
    assert offsets.memory(FIRST) == 9  # which is newer than what was saved
    offsets.remove(FIRST)
    assert await read(offsets, FIRST, ReadFrom.MEMORY) is None
    assert await read(offsets, FIRST, ReadFrom.MEMORY_FIRST) == 5


def test_files_are_where_the_environment_says_or_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROCKETMQ_OFFSETS_DIR", raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert LocalOffsets("c", "g").path == tmp_path / ".rocketmq_offsets" / "c" / "g" / "offsets.json"
    monkeypatch.setenv("ROCKETMQ_OFFSETS_DIR", str(tmp_path / "elsewhere"))
    assert LocalOffsets("c", "g").path == tmp_path / "elsewhere" / "c" / "g" / "offsets.json"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a file that keeps its writer waiting")
async def test_a_slow_disk_does_not_stop_the_loop_and_one_writes_at_a_time(tmp_path: Path) -> None:
    offsets = LocalOffsets("10.0.0.1@4711", "billing", directory=tmp_path)
    await offsets.load()
    offsets.update(FIRST, 7, increase_only=True)
    temporary = saved(tmp_path).with_name("offsets.json.tmp")
    temporary.parent.mkdir(parents=True)
    os.mkfifo(temporary)  # who opens it to write waits for one who reads
    first = asyncio.create_task(offsets.persist([FIRST]))
    second = asyncio.create_task(offsets.persist([FIRST]))
    await asyncio.sleep(0.05)  # which would never end if the loop waited for the disk
    first.cancel()
    await asyncio.sleep(0.05)
    assert not first.done(), "the thread still writes, and nobody may write beside it"
    assert not second.done()
    with temporary.open("rb") as reader:  # the first may go on; a pipe cannot be synced, so it fails
        await asyncio.wait((first,))
        assert reader.read()
    with pytest.raises(asyncio.CancelledError):
        first.result()
    await second  # the pipe is gone with the first
    offsets = LocalOffsets("10.0.0.1@4711", "billing", directory=tmp_path)
    await offsets.load()
    assert await offsets.read(FIRST) == 7
