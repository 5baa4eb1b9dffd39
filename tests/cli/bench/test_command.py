"""`hanabi bench` as its users see it: what it measures, what it leaves behind, and how it ends."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

import hanabi
from tests.cli.admin_commands import answer, refusal, run, said, send
from tests.cli.commands import DEADLINE_SECONDS, HANABI, environment, refused
from tests.cli.shapes import check, shape_of
from tests.serving import Serving

SMALL = ("--size", "100")


def ends(cluster: Serving, topic: str) -> int:
    return int(answer(cluster, "topic", "status", topic)["messages"])


def groups(cluster: Serving) -> set[str]:
    return {each["group"] for each in answer(cluster, "group", "list") if each["group"].startswith("hanabi_bench")}


def test_produce_sends_so_many_and_says_how_fast(cluster: Serving) -> None:
    found = answer(cluster, "bench", "produce", "--topic", "BenchMade", "--create", "--count", "300", *SMALL)
    assert (found["topicCreated"], found["ended"], found["failed"], found["failures"]) == (True, "count", 0, [])
    assert (found["sent"]["messages"], found["sent"]["megabytes"], found["statuses"]) == (300, 0.03, {"SEND_OK": 300})
    assert found["sent"]["messagesPerSecond"] == pytest.approx(300 / found["sent"]["seconds"])
    times = found["latency"]
    assert 0 < times["p50Ms"] <= times["p90Ms"] <= times["p99Ms"] <= times["p999Ms"] <= times["maxMs"]
    assert ends(cluster, "BenchMade") == 300
    again = answer(cluster, "bench", "produce", "-t", "BenchMade", "--create", "--count", "50", "--batch", "20", *SMALL)
    assert (again["topicCreated"], again["sent"]["messages"], ends(cluster, "BenchMade")) == (False, 50, 350)


def test_produce_is_for_people_too_and_says_what_it_does_and_made(cluster: Serving) -> None:
    command = ("bench", "produce", "-t", "BenchTold", "--create", "--seconds", "1.3", "--rate", "40", *SMALL)
    done = run(*command, "-n", cluster.namesrv)
    assert done.returncode == 0
    made, plan, *seconds = done.stderr.splitlines()
    assert made == "made topic BenchTold, 8 queues on broker-a; it stays: hanabi topic delete BenchTold removes it"
    assert plan == "sending 100 bytes a message, 64 at once, for 1.3 s, 40 a second"
    assert seconds
    assert all(" s  sent " in line for line in seconds)
    assert done.stdout.splitlines()[0].split() == ["messages", "52"]
    assert "P99.9 MS" in done.stdout
    one_by_one = ("bench", "produce", "-t", "BenchTold", "--sync-one-by-one", "--count", "5", *SMALL)
    assert "a message, 1 at once, until there are 5" in run(*one_by_one, "-n", cluster.namesrv).stderr
    assert ends(cluster, "BenchTold") == 57


def test_consume_counts_what_comes_and_leaves_no_group_behind(cluster: Serving) -> None:
    said(cluster, "topic", "create", "BenchRead", "--queues", "2")
    send(cluster, *(hanabi.Message("BenchRead", bytes(10)) for _ in range(40)))
    found = answer(cluster, "bench", "consume", "--topic", "BenchRead", "--from", "first", "--count", "40")
    assert (found["received"]["messages"], found["ended"], found["groupRemoved"]) == (40, "count", True)
    assert found["received"]["megabytes"] == pytest.approx(0.0004)
    assert found["age"]["maxMs"] >= found["age"]["p50Ms"] >= 0
    assert groups(cluster) == set()
    later = run("bench", "consume", "-t", "BenchRead", "--seconds", "0.3", "-n", cluster.namesrv)
    assert later.returncode == 1  # from now on nothing came
    assert "nothing was measured" in later.stdout
    assert later.stderr.splitlines()[-1].endswith(" is removed")


def test_consume_moves_a_group_that_is_named_and_no_other(cluster: Serving) -> None:
    said(cluster, "topic", "create", "BenchNamed", "--queues", "1")
    for group in ("bench_named", "bench_other"):
        said(cluster, "group", "create", group)
        said(cluster, "offset", "skip", group, "BenchNamed", "--yes")
    send(cluster, *(hanabi.Message("BenchNamed", b"x") for _ in range(5)))
    named = ("bench", "consume", "-t", "BenchNamed", "--group", "bench_named", "--count", "5")
    assert "count as consumed by group bench_named" in refusal(cluster, 2, *named)
    assert answer(cluster, "group", "progress", "bench_named")["lag"] == 5
    found = answer(cluster, *named, "--yes")
    assert (found["group"], found["groupRemoved"], found["received"]["messages"]) == ("bench_named", False, 5)
    assert answer(cluster, "group", "progress", "bench_named")["lag"] == 0
    assert answer(cluster, "group", "progress", "bench_other")["lag"] == 5
    unknown = ("bench", "consume", "-t", "BenchNamed", "--group", "bench_nobody", "--yes")
    assert "knows group bench_nobody" in refusal(cluster, 1, *unknown)


def test_latency_is_from_send_to_listener_and_nothing_is_lost(cluster: Serving) -> None:
    command = ("--topic", "BenchTrip", "--create", "--rate", "200", "--count", "60", *SMALL)
    found = answer(cluster, "bench", "latency", *command)
    assert (found["sent"]["messages"], found["received"], found["rate"]) == (60, 60, 200.0)
    assert (found["lost"], found["duplicated"], found["failed"], found["ended"]) == (0, 0, 0, "count")
    assert found["latency"]["maxMs"] > 0 < found["sendLatency"]["maxMs"]
    assert (found["topicCreated"], found["groupRemoved"], groups(cluster)) == (True, True, set())
    text = run("bench", "latency", *command, "-n", cluster.namesrv).stdout
    assert "send to listener" in text
    assert ends(cluster, "BenchTrip") == 2 * (60 + 8)  # and one to each queue, ahead


def test_a_store_is_measured_in_a_folder_that_is_gone_afterwards(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()  # somebody's store
    done = run("bench", "store", "--home", str(tmp_path), "--count", "500", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    check(shape_of(("bench", "store")), done.stdout)
    found: Any = json.loads(done.stdout)
    assert [found[phase]["messages"] for phase in ("append", "read", "sync")] == [500, 500, 200]
    assert found["syncLatency"]["p50Ms"] > 0
    assert [path.name for path in tmp_path.rglob("*")] == ["commitlog"]
    text = run("bench", "store", "--home", str(tmp_path), "--seconds", "0.1").stdout
    assert text.splitlines()[0].split() == ["WHAT", "MESSAGES", "SECONDS", "MESSAGES/S", "MB/S"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("produce -t Nowhere", 1, "topic Nowhere does not exist: --create makes it"),
        ("consume -t Nowhere", 1, "topic Nowhere does not exist"),
        ("latency -t Nowhere", 1, "topic Nowhere does not exist: --create makes it"),
        ("produce -t T --seconds 1 --count 1", 2, "choose one"),
        ("produce -t T --count 2000000", 2, "2.4 GB on the disk"),
        ("produce -t T --rate 1000 --seconds 2000", 2, "2.4 GB on the disk"),
        ("produce -t T --sync-one-by-one --batch 2", 2, "one message under way"),
        ("produce -t T --rate 5 --batch 2", 2, "single messages"),
        ("produce -t T --batch 2000", 2, "more than one request carries"),
        ("consume -t T --from middle", 2, "must be first or last"),
        ("consume -t T --group no*body --yes", 2, "no*body"),
    ],
)
def test_what_cannot_be_measured_is_one_sentence(cluster: Serving, arguments: str, code: int, words: str) -> None:
    assert words in refusal(cluster, code, "bench", *arguments.split())


@pytest.mark.parametrize("wrong", ["--size 0", "--seconds 0", "--count 0", "--rate 0", "--concurrency 0", "--batch 0"])
def test_a_number_that_measures_nothing_is_refused(cluster: Serving, wrong: str) -> None:
    done = run("bench", "produce", "-t", "T", *wrong.split(), "-n", cluster.namesrv)
    assert (done.returncode, done.stdout) == (2, "")
    assert wrong.split()[0] in done.stderr


def test_a_store_needs_a_directory_and_room(tmp_path: Path) -> None:
    assert "no such directory" in refused_alone("--home", str(tmp_path / "none"), "--count", "1")
    assert "say --yes" in refused_alone("--home", str(tmp_path), "--count", "2000000").lower()
    assert "are free" in refused_alone("--home", str(tmp_path), "--count", str(1 << 40), "--yes")
    assert list(tmp_path.iterdir()) == []


def refused_alone(*arguments: str) -> str:
    """Check as `refused` does, where a line says beforehand what will be done."""
    return refused(run("bench", "store", *arguments, "--json"), 2)


@pytest.mark.parametrize("verb", ["produce", "consume", "latency"])
def test_a_cluster_that_is_not_there_is_one_sentence(verb: str) -> None:
    assert "127.0.0.1:1" in refused(run("bench", verb, "-t", "T", "-n", "127.0.0.1:1"), 1)


def test_ctrl_c_ends_it_with_what_was_measured_until_then(cluster: Serving, tmp_path: Path) -> None:
    said(cluster, "topic", "create", "BenchCut", "--queues", "1")
    there = ("--topic", "BenchCut", "-n", cluster.namesrv)
    long = ("--seconds", "600")
    commands = {
        "appended ": ("store", "--home", str(tmp_path), *long, "--size", "1"),
        "sent ": ("produce", *there, *long, "--rate", "50", *SMALL),
        "received ": ("consume", *there, *long),
    }
    running = {
        line: subprocess.Popen(
            [*HANABI, "bench", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(PYTHONUNBUFFERED="1"),
        )
        for line, command in commands.items()
    }
    told = {line: _interrupted(process, line) for line, process in running.items()}
    for process in running.values():
        assert process.returncode == 130
    produced, errors = told["sent "]
    assert "ended by    interrupted" in produced
    assert int(produced.split()[1]) > 0
    assert errors.endswith("hanabi: interrupted\n")
    consumed, errors = told["received "]
    assert "ended by    interrupted" in consumed
    assert errors.splitlines()[-2].endswith(" is removed")
    appended, _ = told["appended "]
    assert "ended by  interrupted" in appended
    assert int(appended.splitlines()[1].split()[1]) > 0
    assert list(tmp_path.iterdir()) == []
    assert groups(cluster) == set()


def _interrupted(process: "subprocess.Popen[str]", line: str) -> tuple[str, str]:
    """Return what it wrote, with Ctrl-C when it had measured a second; it comes twice, as `timeout -s INT` sends it."""
    assert process.stderr is not None
    seen = ""
    while line not in seen:
        seen = process.stderr.readline()
        assert seen, process.communicate()
    for _ in range(2):
        process.send_signal(signal.SIGINT)
    return process.communicate(timeout=DEADLINE_SECONDS)
