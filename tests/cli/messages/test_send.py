"""`hanabi send` as its users see it: what is stored, what is printed, how it ends."""

import json
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.commands import DEADLINE_SECONDS, HANABI, environment, hanabi, refused
from tests.interop.processes import ServerProcess, free_port
from tests.serving import Serving


def shown(cluster: Serving, topic: str, count: int) -> list[dict[str, object]]:
    """Return the first messages of *topic*, as `hanabi tail` shows them, in the order in which they were stored."""
    result = hanabi("tail", topic, "--from", "first", "--count", str(count), "--json", "-n", cluster.namesrv)
    assert result.returncode == 0, result.stderr
    messages = [json.loads(line) for line in result.stdout.splitlines()]
    return sorted(messages, key=lambda message: message["logOffset"])


def test_a_message_is_stored_with_all_that_was_given(cluster: Serving) -> None:
    options = ["--tags", "created", "--keys", "42 43", "--keys", "44", "--property", "a=b=c", "--property", "d="]
    result = hanabi("send", "SendAll", "grün 緑", *options, "-n", cluster.namesrv)
    assert (result.returncode, result.stderr) == (0, "")
    status, message_id, place = result.stdout.split()
    (message,) = shown(cluster, "SendAll", 1)
    assert (status, message_id) == ("SEND_OK", message["messageId"])
    assert place == f"broker-a/{message['queueId']}@{message['queueOffset']}"
    assert (message["body"], message["tags"], message["keys"]) == ("grün 緑", "created", ["42", "43", "44"])
    properties = message["properties"]
    assert isinstance(properties, dict)
    assert properties["a"] == "b=c"


def test_stdin_is_one_message_byte_by_byte(cluster: Serving) -> None:
    body = bytes(range(256)) + b"\r\n"
    assert hanabi("send", "SendStdin", "-", "-n", cluster.namesrv, typed=body).returncode == 0
    assert hanabi("send", "SendStdin", "-n", cluster.namesrv, typed=b"two\nlines\n").returncode == 0
    first, second = shown(cluster, "SendStdin", 2)
    assert first["encoding"] == "base64"
    assert second["body"] == "two\nlines\n"


def test_lines_are_messages_of_their_own_and_are_sent_as_they_come(cluster: Serving) -> None:
    command = [*HANABI, "send", "SendLines", "--lines", "--json", "-n", cluster.namesrv]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"one\r\n\ntwo\n")
            process.stdin.flush()
            told = [json.loads(process.stdout.readline()) for _ in range(2)]
            assert [message["body"] for message in shown(cluster, "SendLines", 2)] == ["one", "two"]
            out, err = process.communicate(b"three", timeout=DEADLINE_SECONDS)
        finally:
            process.kill()
    assert (process.returncode, err) == (0, b"")
    told += map(json.loads, out.splitlines())
    assert [line["status"] for line in told] == ["SEND_OK"] * 3
    assert [message["body"] for message in shown(cluster, "SendLines", 3)] == ["one", "two", "three"]


def test_count_sends_as_many_and_tells_of_each(cluster: Serving) -> None:
    result = hanabi("send", "SendMany", "again", "--count", "2500", "--json", "-n", cluster.namesrv)
    assert (result.returncode, result.stderr) == (0, "")
    told = [json.loads(line) for line in result.stdout.splitlines()]
    assert len({line["messageId"] for line in told}) == 2500
    assert len({(line["brokerName"], line["queueId"], line["queueOffset"]) for line in told}) == 2500


def test_a_delayed_message_comes_later(cluster: Serving) -> None:
    hanabi("send", "SendLater", "now", "-n", cluster.namesrv)
    began = time.monotonic()
    assert hanabi("send", "SendLater", "later", "--delay", "1", "-n", cluster.namesrv).returncode == 0
    assert {message["body"] for message in shown(cluster, "SendLater", 2)} == {"now", "later"}
    assert time.monotonic() - began > 0.9


def test_the_cluster_may_be_named_by_the_environment(cluster: Serving) -> None:
    assert hanabi("send", "SendEnv", "x", NAMESRV_ADDR=cluster.namesrv).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bad topic", "x"], "only letters, digits"),
        (["T", ""], "body"),
        (["T", "x", "--property", "alone"], "--property alone: must be NAME=VALUE"),
        (["T", "x", "--property", "TAGS=x"], "TAGS"),
        (["T", "x", "--lines"], "give no BODY"),
        (["T", "x", "--access-key", "me"], "HANABI_SECRET_KEY"),
        (["T", "x", "-n", "nowhere:port"], "'nowhere:port' has no port between 1 and 65535"),
        (["T", "x", "--delay", "soon"], "--delay soon: must be a time such as 90s, 5m or 1h30m"),
        (["T", "x", "--delay", "1h-3m"], "--delay 1h-3m: must be a time"),
        (["T", "x", "--delay", "9999999d"], "--delay 9999999d: longer than 36500 days"),
        (["T", "x", "--at", "12"], "--at 12: as milliseconds since 1970"),
        (["T", "x", "--delay", "1s", "--at", "2030-01-01"], "--delay and --at are two ways to deliver later"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(cluster: Serving, arguments: list[str], words: str) -> None:
    where = [] if "-n" in arguments else ["-n", cluster.namesrv]
    assert words in refused(hanabi("send", *arguments, *where), 2)


def test_a_cluster_that_is_not_there_is_told_in_one_sentence() -> None:
    address = f"127.0.0.1:{free_port()}"
    sentence = refused(hanabi("send", "T", "x", "-n", address), 1)
    assert address in sentence
    assert "T" in sentence


def test_a_broker_in_place_of_a_name_server_is_told_apart(cluster: Serving) -> None:
    for command in (("send", "T", "x"), ("tail", "T")):
        sentence = refused(hanabi(*command, "-n", cluster.broker), 1)
        assert sentence.endswith(f"{cluster.broker} is not a name server (a broker, perhaps)")


def test_a_name_server_without_brokers_is_told_as_such(tmp_path: Path) -> None:
    command = [*HANABI, "serve", "namesrv", "--home", str(tmp_path / "home"), "--host", "127.0.0.1", "--port", "0"]
    namesrv = ServerProcess("hanabi serve namesrv", command, tmp_path / "console.log")
    try:
        address = namesrv.wait_for_line("ready namesrv ").split()[-1]
        for command in (["send", "T", "x"], ["tail", "T"]):
            assert f"no broker is registered with the name server {address}" in refused(
                hanabi(*command, "-n", address), 1
            )
    finally:
        namesrv.kill()


def test_the_help_names_every_option() -> None:
    text = hanabi("send", "--help", COLUMNS="200", NO_COLOR="1").stdout
    for option in ("--tags", "--keys", "--property", "--delay", "--count", "--lines", "--json", "--namesrv"):
        assert option in text


def test_messages_with_one_ordering_key_are_in_one_queue_in_their_order(cluster: Serving) -> None:
    for number in range(6):
        sent = hanabi("send", "SendOrdered", str(number), "--ordering-key", "order 43", "-n", cluster.namesrv)
        assert sent.returncode == 0, sent.stderr
    shown = hanabi("message", "print", "SendOrdered", "--format", "{queueId} {body}", "-n", cluster.namesrv)
    queues, bodies = zip(*(line.split() for line in shown.stdout.splitlines()), strict=True)
    assert len(set(queues)) == 1
    assert list(bodies) == list("012345")


def test_a_delay_is_a_time_or_a_level_and_a_moment_can_be_given(cluster: Serving) -> None:
    soon = (datetime.now(UTC) + timedelta(seconds=2)).isoformat()
    for body, *later in (("after", "--delay", "1.5s"), ("level", "--delay", "1"), ("moment", "--at", soon)):
        sent = hanabi("send", "SendDelays", body, *later, "-n", cluster.namesrv)
        assert sent.returncode == 0, sent.stderr
    command = ["tail", "SendDelays", "--from", "first", "--count", "3"]
    shown = hanabi(*command, "--format", "{body} {bornTimestamp} {storeTimestamp}", "-n", cluster.namesrv)
    waited = {body: int(stored) - int(born) for body, born, stored in map(str.split, shown.stdout.splitlines())}
    assert waited.keys() == {"after", "level", "moment"}
    assert waited["after"] >= 1_500
    assert waited["level"] >= 1_000
