"""Tests of how commands end when something comes between: Ctrl-C, kill -9, a closed pipe, a terminal or none.

One line on stderr, the right exit code, nothing half done; what was interrupted is given again and is then whole.
"""

import os
import pty
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

import hanabi
from hanabi.testing.waiting import wait_until
from tests.cli.admin_commands import answer, answers, refusal, run, said, send
from tests.cli.commands import DEADLINE_SECONDS, HANABI, environment, refused
from tests.cli.commands import hanabi as hanabi_process
from tests.cli.messages.test_dlq import kill_letters
from tests.serving import Serving

LETTERS = 150
FULL = Path("/dev/full")
SENT_TWICE_MAX = 16  # hanabi.admin.dead_letters.BOOKMARK_EVERY
QUEUES = 400


def started(cluster: Serving, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*HANABI, *arguments, "-n", cluster.namesrv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(PYTHONUNBUFFERED="1"),
    )


def resent(cluster: Serving, group: str) -> Counter[str]:
    """Return how often each letter was sent to the group again."""
    return Counter(each["messageId"] for each in answers(cluster, "message", "print", f"%RETRY%{group}"))


@pytest.mark.parametrize(("how", "twice_max"), [(signal.SIGINT, 0), (signal.SIGKILL, SENT_TWICE_MAX)])
def test_a_resend_that_is_interrupted_goes_on_where_it_was(
    cluster: Serving, how: signal.Signals, twice_max: int
) -> None:
    group, topic = f"resend_{how.name}", f"Resend{how.name}"
    kill_letters(cluster, topic, group, LETTERS)
    letters = {each["messageId"] for each in answers(cluster, "dlq", "show", group)}
    before = resent(cluster, group)
    with started(cluster, "dlq", "resend", group, "--yes", "--rate", "20") as process:
        assert process.stdout is not None
        for _ in range(SENT_TWICE_MAX + 4):  # far enough for a bookmark, and seconds from the end
            process.stdout.readline()
        process.send_signal(how)
        _, errors = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == (130 if how is signal.SIGINT else -signal.SIGKILL)
    if how is signal.SIGINT:
        assert errors == "hanabi: interrupted\n"
    assert (resent(cluster, group) - before).total() < LETTERS
    answers(cluster, "dlq", "resend", group, "--yes")
    done = resent(cluster, group) - before
    assert set(done) == letters
    assert done.total() - LETTERS <= twice_max
    assert answers(cluster, "dlq", "resend", group, "--yes") == []


def test_a_reset_that_is_killed_is_whole_when_it_is_given_again(cluster: Serving) -> None:
    said(cluster, "topic", "create", "Halved", "--queues", str(QUEUES))
    said(cluster, "group", "create", "halved")
    with hanabi.Producer("admin_tests", namesrv=cluster.namesrv) as producer:
        producer.send_many([hanabi.Message("Halved", b"x") for _ in range(QUEUES)])
    command = ("offset", "reset", "halved", "Halved", "--to", "last", "--yes")
    ends = [each["maxOffset"] for each in answer(cluster, "offset", "show", "halved", "Halved")]
    with hanabi.PullConsumer("halved", namesrv=cluster.namesrv) as watcher:
        first = next(queue for queue in watcher.queues_of("Halved") if ends[queue.queue_id])
        with started(cluster, *command) as process:
            wait_until(lambda: watcher.committed(first) == ends[first.queue_id])  # it has begun
            process.kill()
            process.communicate(timeout=DEADLINE_SECONDS)
    said(cluster, *command)
    assert [each["groupOffset"] for each in answer(cluster, "offset", "show", "halved", "Halved")] == ends


def test_ctrl_c_ends_a_command_whose_server_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        command = [*HANABI, "topic", "list", "-n", f"{host}:{port}"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment()) as process:
            connection, _ = silent.accept()
            with connection:
                connection.recv(1)  # it asks
                process.send_signal(signal.SIGINT)
                _, errors = process.communicate(timeout=DEADLINE_SECONDS)
        assert (process.returncode, errors) == (130, "hanabi: interrupted\n")


@pytest.mark.parametrize("command", ["message print Piped", "stats --json --watch 0.1"])
def test_a_pipe_that_is_closed_is_no_error(cluster: Serving, command: str) -> None:
    if "Piped" not in said(cluster, "topic", "list"):
        said(cluster, "topic", "create", "Piped", "--queues", "1")
        send(cluster, *(hanabi.Message("Piped", bytes([97]) * 1_000) for _ in range(300)))
    script = f"{' '.join(HANABI)} {command} -n {cluster.namesrv} | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=DEADLINE_SECONDS, env=environment(), check=False
    )
    assert (done.returncode, done.stderr) == (141, "")
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("typed", "code", "words"),
    [(b"n\n", 1, "nothing was done"), (b"\x03", 130, "nothing was done"), (b"\x04", 1, "nothing was done")],
    ids=["no", "ctrl-c", "ctrl-d"],
)
def test_a_person_who_does_not_want_it_is_obeyed(cluster: Serving, typed: bytes, code: int, words: str) -> None:
    if "Wanted" not in said(cluster, "topic", "list"):
        said(cluster, "topic", "create", "Wanted")
    ours, theirs = pty.openpty()
    command = [*HANABI, "topic", "delete", "Wanted", "-n", cluster.namesrv]
    try:
        with subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment(), start_new_session=True
        ) as process:
            os.close(theirs)
            seen = b""
            while b"[y/N]" not in seen:
                seen += os.read(ours, 1_000)
            if typed != b"\x03":
                os.write(ours, typed)
            deadline = time.monotonic() + DEADLINE_SECONDS
            while process.poll() is None and time.monotonic() < deadline:
                if typed == b"\x03":  # what a terminal makes of it; once more if it came just before the reading began
                    process.send_signal(signal.SIGINT)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(DEADLINE_SECONDS / 4)  # a second one while it ends would be its end
            process.kill()
            with suppress(OSError):  # nobody is there any more
                while part := os.read(ours, 1_000):
                    seen += part
    finally:
        os.close(ours)
    assert (process.returncode, words in seen.decode(), "Traceback" in seen.decode()) == (code, True, False)
    assert answer(cluster, "topic", "route", "Wanted")


@pytest.mark.parametrize(
    ("namesrv", "code", "words"),
    [
        ("non:sense", 2, "non:sense"),
        ("127.0.0.1:99999", 2, "between 1 and 65535"),
        ("127.0.0.1:1", 1, "no name server can be reached"),
        ("no-such-host.invalid:9876", 1, "no-such-host.invalid"),
    ],
)
def test_an_address_that_is_wrong_is_one_sentence(namesrv: str, code: int, words: str) -> None:
    assert words in refused(run("topic", "list", "-n", namesrv), code)


def test_a_server_that_speaks_something_else_is_one_sentence() -> None:
    """Another port of the same machine is the most usual mistake."""
    with socket.create_server(("127.0.0.1", 0)) as web:
        host, port = web.getsockname()
        command = [*HANABI, "topic", "list", "-n", f"{host}:{port}"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
        ) as process:
            connection, _ = web.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
            out, errors = process.communicate(timeout=DEADLINE_SECONDS)
    sentence = refused(subprocess.CompletedProcess(command, process.returncode, out, errors), 1)
    assert f"{host}:{port}" in sentence


def test_words_are_completed_in_a_shell() -> None:
    asked = hanabi_process(_HANABI_COMPLETE="complete_bash", COMP_WORDS="hanabi topic st", COMP_CWORD="2")
    assert asked.stdout.split() == ["status"]


def test_help_says_of_switches_what_they_do_and_how_far_delays_go() -> None:
    text = hanabi_process("send", "-h", COLUMNS="200").stdout
    assert "<bool>" not in text
    assert "18 2h" in text
    assert "--help" in text


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", [["--version"], ["topic", "--help"], ["serve", "--config"], ["topic", "list"]])
def test_an_output_that_cannot_be_written_is_one_sentence(cluster: Serving, arguments: list[str]) -> None:
    with FULL.open("w") as full:
        done = subprocess.run(
            [*HANABI, *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=DEADLINE_SECONDS,
            env=environment(NAMESRV_ADDR=cluster.namesrv),
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "hanabi: the output cannot be written: No space left on device\n")


def test_an_export_to_a_place_that_cannot_be_written_is_one_sentence(cluster: Serving, tmp_path: Path) -> None:
    kill_letters(cluster, "Unwritable", "unwritable", 1)
    (tmp_path / "file").write_text("")
    for place, reason in (("file/letters.jsonl", "Not a directory"), ("nowhere/letters.jsonl", "No such file")):
        sentence = refusal(cluster, 2, "dlq", "export", "unwritable", str(tmp_path / place))
        assert f"{place} cannot be written: {reason}" in sentence


def test_ctrl_c_while_the_command_is_still_being_imported_is_no_traceback() -> None:
    ready = "import sys, threading, signal, os, time\n"
    # A finder that interrupts the process when the command's modules are imported, as early as a hand can.
    ready += (
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'hanabi.cli.main':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "            time.sleep(30)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "sys.argv = ['hanabi', 'topic', 'list']\n"
        "import runpy\n"
        "runpy.run_module('hanabi', run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", ready], capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")
