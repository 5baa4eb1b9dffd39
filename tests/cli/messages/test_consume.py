"""`hanabi consume` as its users see it: messages once, committed after they were written."""

import json
import signal
import subprocess

from tests.cli.commands import DEADLINE_SECONDS, HANABI, environment, hanabi, refused
from tests.serving import Serving


def send(cluster: Serving, topic: str, *arguments: str) -> None:
    result = hanabi("send", topic, *arguments, "-n", cluster.namesrv)
    assert result.returncode == 0, result.stderr


def send_lines(cluster: Serving, topic: str, *bodies: str) -> None:
    result = hanabi("send", topic, "--lines", "-n", cluster.namesrv, typed="\n".join(bodies).encode())
    assert result.returncode == 0, result.stderr


def consumed(cluster: Serving, *arguments: str) -> list[str]:
    result = hanabi("consume", *arguments, "-n", cluster.namesrv)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_a_group_goes_on_where_its_last_command_ended(cluster: Serving) -> None:
    send_lines(cluster, "ConsumeOn", *map(str, range(10)))
    first = consumed(cluster, "consume_on", "ConsumeOn", "--count", "4", "--raw")
    rest = consumed(cluster, "consume_on", "ConsumeOn", "--count", "6", "--raw")
    assert sorted(first + rest) == sorted(map(str, range(10)))
    assert consumed(cluster, "consume_on", "ConsumeOn", "--idle", "1", "--raw") == []
    again = consumed(cluster, "consume_other", "ConsumeOn", "--count", "10", "--json")
    assert sorted(json.loads(line)["body"] for line in again) == sorted(map(str, range(10)))


def test_what_was_written_is_committed_when_a_signal_ends_it(cluster: Serving) -> None:
    send(cluster, "ConsumeSignal", "one")
    command = [*HANABI, "consume", "consume_signal", "ConsumeSignal", "--raw", "-n", cluster.namesrv]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"one\n"
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=DEADLINE_SECONDS)
            assert (process.returncode, out) == (0, b"")
        finally:
            process.kill()
    send(cluster, "ConsumeSignal", "two")
    assert consumed(cluster, "consume_signal", "ConsumeSignal", "--count", "1", "--raw") == ["two"]


def test_tags_and_a_template_choose_what_is_written(cluster: Serving) -> None:
    send(cluster, "ConsumeForm", "x", "--tags", "a", "--keys", "7", "--property", "region=eu")
    send(cluster, "ConsumeForm", "y", "--tags", "b")
    template = r"{key}\t{property:region}\t{body}"
    arguments = ["consume_form", "ConsumeForm", "--tags", "a", "--count", "1", "--format", template]
    assert consumed(cluster, *arguments) == ["7\teu\tx"]


def test_a_topic_that_does_not_exist_and_a_cluster_that_does_not_answer_end_it(cluster: Serving) -> None:
    result = hanabi("consume", "g", "NoSuchTopicHere", "-n", cluster.namesrv)
    assert result.returncode == 1
    assert "NoSuchTopicHere" in result.stderr.splitlines()[-1]
    result = hanabi("consume", "g", "T", "-n", "127.0.0.1:1")
    assert result.returncode == 1
    assert "127.0.0.1:1" in result.stderr.splitlines()[-1]


def test_two_filters_at_once_are_refused(cluster: Serving) -> None:
    result = hanabi("consume", "g", "T", "--tags", "a", "--sql", "a > 1", "-n", cluster.namesrv)
    assert refused(result, 2) == "--tags and --sql are two different filters: choose one"
