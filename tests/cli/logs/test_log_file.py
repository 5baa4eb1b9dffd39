"""Log files are begun anew when they are long, are never too many, and come back when the disk does."""

import logging
import threading
from pathlib import Path

import pytest

from hanabi.cli.logs.log_file import LogFile
from hanabi.cli.logs.log_output import TextFormatter, own_record
from hanabi.cli.logs.log_queue import LINES_A_WRITE_MAX, QueuedHandler
from hanabi.testing.waiting import wait_until

DEADLINE_SECONDS = 60.0


def written(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def test_a_long_file_makes_room_for_a_new_one_and_the_oldest_goes(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "logs" / "x.log", bytes_max=20, files_max=3)
    for number in range(9):
        file.write(b"line number %d\n" % number)
    file.close()
    assert written(tmp_path / "logs") == {
        "x.log": "line number 8\n",
        "x.log.1": "line number 7\n",
        "x.log.2": "line number 6\n",
    }


def test_one_file_is_enough_if_one_is_asked_for(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "x.log", bytes_max=10, files_max=1)
    for line in (b"first\n", b"second\n"):
        file.write(line)
    file.close()
    assert written(tmp_path) == {"x.log": "second\n"}


def test_the_next_start_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    for line in (b"first\n", b"second\n"):
        file = LogFile(tmp_path / "x.log")
        file.write(line)
        file.close()
    assert written(tmp_path) == {"x.log": "first\nsecond\n"}


def test_a_file_that_somebody_moved_or_deleted_is_begun_anew(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "x.log")
    file.write(b"first\n")
    (tmp_path / "x.log").rename(tmp_path / "kept")
    file.write(b"second\n")
    (tmp_path / "x.log").unlink()
    file.write(b"third\n")
    file.close()
    assert written(tmp_path) == {"kept": "first\n", "x.log": "third\n"}


def test_a_full_disk_costs_lines_and_nothing_else(small_disk: Path) -> None:
    troubles: list[str] = []
    file = LogFile(small_disk / "x.log")
    handler = QueuedHandler("test", file.write, on_trouble=troubles.append, retry_seconds=0.01)
    handler.setFormatter(TextFormatter())
    file.open()
    handler.start()
    (small_disk / "filler").write_bytes(b"x" * 48 * 1024)
    for number in range(150):  # 25 KB, for which there is no room now and will be
        handler.handle(own_record(logging.INFO, f"line {number} %s", "x" * 100))
    wait_until(lambda: bool(troubles))
    assert troubles == ["No space left on device"]
    (small_disk / "filler").unlink()
    wait_until(lambda: "lines were lost here: No space left on device" in (small_disk / "x.log").read_text())
    handler.handle(own_record(logging.INFO, "all is well"))
    handler.close()
    file.close()
    lines = (small_disk / "x.log").read_text().splitlines()
    assert lines[-1].endswith("all is well")
    assert all(line[:2] == "20" for line in lines)  # each begins with its time: a half line was ended


class Stuck:
    """A terminal that somebody stopped, until it is released."""

    def __init__(self) -> None:
        self.entered, self.released = threading.Event(), threading.Event()
        self.text = b""

    def write(self, lines: bytes) -> None:
        self.entered.set()
        assert self.released.wait(DEADLINE_SECONDS)
        self.text += lines


def test_whoever_logs_does_not_wait_for_who_does_not_read_and_learns_what_was_lost() -> None:
    terminal = Stuck()
    handler = QueuedHandler("test", terminal.write, lines_max=LINES_A_WRITE_MAX)
    handler.start()
    handler.handle(own_record(logging.INFO, "first"))
    assert terminal.entered.wait(DEADLINE_SECONDS)
    for number in range(LINES_A_WRITE_MAX + 5):
        handler.handle(own_record(logging.INFO, f"line {number}"))
    terminal.released.set()
    handler.close()
    lines = terminal.text.decode().splitlines()
    assert lines[0] == "first"
    assert lines[1] == "5 lines were lost here: they came faster than they could be written"
    assert lines[2:] == [f"line {number}" for number in range(LINES_A_WRITE_MAX)]


def test_what_is_logged_before_the_start_is_written_after_it() -> None:
    got: list[bytes] = []
    handler = QueuedHandler("test", got.append)
    handler.handle(own_record(logging.INFO, "early"))
    handler.start()
    handler.close()
    assert got == [b"early\n"]


def test_a_line_that_cannot_be_formatted_ends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    got: list[bytes] = []
    handler = QueuedHandler("test", got.append)
    handler.start()
    handler.handle(own_record(logging.INFO, "%d messages", "many"))
    handler.handle(own_record(logging.INFO, "next"))
    handler.close()
    assert got[-1].endswith(b"next\n")
    assert "many" in capsys.readouterr().err  # as the standard library tells of a mistake in a program
