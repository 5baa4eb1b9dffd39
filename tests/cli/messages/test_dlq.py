"""`hanabi dlq` as its users see it: letters die, are looked at, and live again."""

import json
import queue
import time
from pathlib import Path

import hanabi
from tests.cli.admin_commands import answer, answers, refusal, run, said, send
from tests.cli.commands import DEADLINE_SECONDS
from tests.serving import Serving

LETTERS = 5


def kill_letters(cluster: Serving, topic: str, group: str, count: int = LETTERS) -> None:
    """Let a group fail on messages for good."""
    said(cluster, "topic", "create", topic, "--queues", "2")
    said(cluster, "group", "create", group, "--retry-max", "0")
    said(cluster, "offset", "reset", group, topic, "--to", "first", "--yes")
    seen: queue.Queue[object] = queue.Queue()

    def fail(message: object) -> None:
        seen.put(message)
        raise ValueError("these letters shall die")

    consumer = hanabi.PushConsumer(group, namesrv=cluster.namesrv, max_reconsume_times=0)
    consumer.subscribe(topic)
    consumer.listener(fail)
    send(
        cluster,
        *(
            hanabi.Message(topic, f"letter {number}".encode(), tags="a", keys=[f"k{number}"], properties={"n": "1"})
            for number in range(count)
        ),
    )
    with consumer:
        for _ in range(count):
            seen.get(timeout=60)
    listed: list[dict[str, object]] = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not listed and time.monotonic() < deadline:  # the broker made the topic, and tells the name server
        listed = [each for each in answer(cluster, "dlq", "list") if each["group"] == group]
    (found,) = listed
    assert (found["messages"], found["waiting"], found["topic"]) == (count, count, f"%DLQ%{group}")


def consumed_again(cluster: Serving, topic: str, group: str, count: int) -> list[hanabi.StoredMessage]:
    """Return what the group gets now."""
    seen: queue.Queue[hanabi.StoredMessage] = queue.Queue()

    def take(messages: list[hanabi.StoredMessage]) -> None:
        for message in messages:
            seen.put(message)

    consumer = hanabi.PushConsumer(group, namesrv=cluster.namesrv)
    consumer.subscribe(topic)
    consumer.listener(take)
    with consumer:
        return [seen.get(timeout=60) for _ in range(count)]


def test_letters_are_shown_saved_and_sent_again_to_their_group(cluster: Serving, tmp_path: Path) -> None:
    kill_letters(cluster, "Mortal", "mortal")
    shown = answers(cluster, "dlq", "show", "mortal")
    assert sorted(each["body"] for each in shown) == [f"letter {number}" for number in range(LETTERS)]
    assert len(said(cluster, "dlq", "show", "mortal", "--count", "2").splitlines()) == 2

    file = tmp_path / "letters.jsonl"
    assert answer(cluster, "dlq", "export", "mortal", str(file)) == {
        "group": "mortal",
        "file": str(file),
        "messages": LETTERS,
    }
    assert [json.loads(line) for line in file.read_text().splitlines()] == shown
    assert "say --yes" in refusal(cluster, 2, "dlq", "export", "mortal", str(file))
    assert list(tmp_path.iterdir()) == [file]

    planned = answers(cluster, "dlq", "resend", "mortal", "--dry-run")
    assert {(each["toTopic"], each["originTopic"], each["sent"]) for each in planned} == {
        ("%RETRY%mortal", "Mortal", False)
    }
    assert f"Send {LETTERS} dead letters to group mortal again?" in refusal(cluster, 2, "dlq", "resend", "mortal")

    first = answers(cluster, "dlq", "resend", "mortal", "--count", "2", "--rate", "50", "--yes")
    rest = answers(cluster, "dlq", "resend", "mortal", "--yes")
    assert [each["messageId"] for each in (*first, *rest)] == [each["messageId"] for each in planned]
    assert all(each["sent"] for each in (*first, *rest))
    assert answers(cluster, "dlq", "resend", "mortal", "--yes") == []
    assert said(cluster, "dlq", "show", "mortal", "--waiting") == ""

    again = consumed_again(cluster, "Mortal", "mortal", LETTERS)
    assert sorted(message.message_id for message in again) == sorted(each["messageId"] for each in planned)
    assert {(message.topic, message.tags, message.properties["n"]) for message in again} == {("Mortal", "a", "1")}


def test_letters_go_to_the_topic_that_they_came_from_if_asked(cluster: Serving) -> None:
    kill_letters(cluster, "Origin", "origin")
    before = answer(cluster, "topic", "status", "Origin")["messages"]
    one = answers(cluster, "dlq", "show", "origin", "--count", "1")[0]["messageId"]
    (sent,) = answers(cluster, "dlq", "resend", "origin", "--id", one, "--to-origin", "--yes")
    assert (sent["messageId"], sent["toTopic"], sent["sent"]) == (one, "Origin", True)
    assert answer(cluster, "topic", "status", "Origin")["messages"] == before + 1
    (found,) = [each for each in answer(cluster, "dlq", "list") if each["group"] == "origin"]
    assert found["waiting"] == LETTERS

    told = run("dlq", "resend", "origin", "--again", "--to-origin", "--yes", "-n", cluster.namesrv)
    assert told.stderr == f"hanabi: {LETTERS} dead letters sent again, 0 passed over\n"
    assert answer(cluster, "topic", "status", "Origin")["messages"] == before + 1 + LETTERS


def test_a_letter_that_does_not_say_where_it_came_from_is_passed_over(cluster: Serving) -> None:
    said(cluster, "topic", "create", "%DLQ%strange", "--queues", "1")
    send(cluster, hanabi.Message("%DLQ%strange", b"from nowhere"))
    result = run("dlq", "resend", "strange", "--yes", "-n", cluster.namesrv)
    assert result.returncode == 1
    assert "passed over: it does not say which topic it came from" in result.stdout


def test_a_group_without_dead_letters_is_one_sentence(cluster: Serving) -> None:
    for arguments in (["show", "nobody"], ["resend", "nobody", "--yes"], ["export", "nobody", "nowhere.jsonl"]):
        assert "group nobody has no dead letters" in refusal(cluster, 1, "dlq", *arguments)
    assert not Path("nowhere.jsonl").exists()
