"""`hanabi tail` as its users see it; and that nobody else sees it."""

import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hanabi.wire.codes import RequestCode, ResponseCode
from tests.cli.commands import DEADLINE_SECONDS, HANABI, environment, hanabi, refused
from tests.interop.probe import ask
from tests.serving import Serving


def send(cluster: Serving, topic: str, *arguments: str) -> None:
    result = hanabi("send", topic, *arguments, "-n", cluster.namesrv)
    assert result.returncode == 0, result.stderr


class Tailing:
    """A tail that runs: what it wrote so far, and how it ends."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def stop(self, number: int = signal.SIGINT) -> tuple[int, str, str]:
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=DEADLINE_SECONDS)
        return self.process.returncode, out, err


@contextmanager
def tailing(cluster: Serving, *arguments: str) -> Iterator[Tailing]:
    """Ready: what is sent from now on is shown."""
    command = [*HANABI, "tail", *arguments, "-n", cluster.namesrv]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        watchdog = threading.Timer(DEADLINE_SECONDS, process.kill)  # a line that never comes
        watchdog.start()
        try:
            assert process.stderr is not None
            assert process.stderr.readline().startswith("tailing ")
            yield Tailing(process)
        finally:
            watchdog.cancel()
            process.kill()


def test_only_what_comes_from_now_on_is_shown_line_by_line(cluster: Serving) -> None:
    send(cluster, "TailNow", "old")
    with tailing(cluster, "TailNow") as tail:
        send(cluster, "TailNow", "new\nline", "--tags", "a", "--keys", "1 2")
        stored, place, tags, keys, body = tail.line().split()
        assert stored.endswith("Z")
        assert place.startswith("broker-a/")
        assert (tags, keys, body) == ("tags=a", "keys=1,2", "new\\nline")
        assert tail.stop() == (0, "", "")


def test_a_long_body_is_shown_whole_if_asked_for(cluster: Serving) -> None:
    body = "x" * 5_000
    send(cluster, "TailLong", body)
    arguments = ["tail", "TailLong", "--from", "first", "--count", "1", "-n", cluster.namesrv]
    assert hanabi(*arguments).stdout.endswith("x... and 3000 more characters\n")
    assert f" {body}\n" in hanabi(*arguments, "--full").stdout
    found = hanabi("message", "print", "TailLong", "--full", "-n", cluster.namesrv)
    assert f" {body}\n" in found.stdout


def test_sigterm_is_as_good_as_ctrl_c(cluster: Serving) -> None:
    send(cluster, "TailTerm", "old")
    with tailing(cluster, "TailTerm") as tail:
        assert tail.stop(signal.SIGTERM) == (0, "", "")


def test_tags_and_sql_choose(cluster: Serving) -> None:
    for tag, amount in (("a", 1), ("b", 20), ("c", 300)):
        send(cluster, "TailFilter", tag, "--tags", tag, "--property", f"amount={amount}")
    seen = hanabi("tail", "TailFilter", "--tags", "a || c", "--from", "first", "--count", "2", "-n", cluster.namesrv)
    assert sorted(line.split()[-1] for line in seen.stdout.splitlines()) == ["a", "c"]
    with_sql = ["--sql", "amount BETWEEN 10 AND 100", "--from", "first", "--count", "1"]
    seen = hanabi("tail", "TailFilter", *with_sql, "-n", cluster.namesrv)
    assert [line.split()[-1] for line in seen.stdout.splitlines()] == ["b"]


def test_a_time_shows_what_was_stored_then_or_later(cluster: Serving) -> None:
    send(cluster, "TailTime", "before", "--count", "8")
    time.sleep(0.01)
    since = time.time_ns() // 1_000_000
    send(cluster, "TailTime", "after", "--count", "8")
    seen = hanabi("tail", "TailTime", "--from", str(since), "--count", "8", "--json", "-n", cluster.namesrv)
    assert [json.loads(line)["body"] for line in seen.stdout.splitlines()] == ["after"] * 8


def test_it_joins_no_group_and_saves_no_offset(cluster: Serving) -> None:
    send(cluster, "TailQuiet", "x", "--count", "20")
    with tailing(cluster, "TailQuiet", "--from", "first") as tail:
        for _ in range(20):
            assert tail.line().endswith(" x\n")
        group = {"consumerGroup": "TOOLS_CONSUMER"}
        members = ask(cluster.broker, RequestCode.GET_CONSUMER_LIST_BY_GROUP, group)
        assert b"@" not in members.body
        for queue in range(4):
            fields = {**group, "topic": "TailQuiet", "queueId": str(queue), "setZeroIfNotFound": "false"}
            answer = ask(cluster.broker, RequestCode.QUERY_CONSUMER_OFFSET, fields)
            assert answer.code == ResponseCode.QUERY_NOT_FOUND
        offsets = ask(cluster.broker, RequestCode.GET_ALL_CONSUMER_OFFSET).body
        assert b"TailQuiet" not in offsets


def test_queues_that_are_added_are_followed_too(cluster: Serving) -> None:
    send(cluster, "TailGrow", "x")
    fields = {"defaultTopic": "TBW102", "perm": "6", "topicFilterType": "SINGLE_TAG"}
    fields |= {"topic": "TailGrow", "readQueueNums": "6", "writeQueueNums": "6"}
    with tailing(cluster, "TailGrow") as tail:
        assert ask(cluster.broker, RequestCode.UPDATE_AND_CREATE_TOPIC, fields).code == ResponseCode.SUCCESS
        send(cluster, "TailGrow", "new", "--count", "12")
        for _ in range(8):  # the two others come when the route is refreshed, every 30 s
            assert tail.line().endswith(" new\n")


def test_whoever_reads_may_have_enough(cluster: Serving) -> None:
    send(cluster, "TailPipe", "x" * 1000, "--count", "200")
    command = f"{' '.join(HANABI)} tail TailPipe --from first -n {cluster.namesrv} | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=environment(), timeout=DEADLINE_SECONDS, check=True
    )
    assert done.stdout.splitlines()[-1] == "141"
    assert done.stderr.splitlines() == ["tailing 4 queues of broker-a"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["NoSuchTopic"], 1, "no broker serves topic NoSuchTopic"),
        (["TBW102", "--sql", "a >"], 2, "column 4"),
        (["TBW102", "--sql", "a > 1", "--tags", "a"], 2, "choose one"),
        (["TBW102", "--tags", "||"], 2, "no tag"),
        (["TBW102", "--from", "yesterday"], 2, "must be a time"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(cluster: Serving, arguments: list[str], code: int, words: str) -> None:
    assert words in refused(hanabi("tail", *arguments, "-n", cluster.namesrv), code)
