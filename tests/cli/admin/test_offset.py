"""`hanabi offset` as its users see it, with members online and without."""

import queue
import time

import pytest

import hanabi
from tests.cli.admin_commands import answer, refusal, said, send
from tests.serving import Serving


def place(cluster: Serving, topic: str, group: str, *, messages: int = 6) -> None:
    """Make a topic of two queues with messages, and a group that has not begun."""
    said(cluster, "topic", "create", topic, "--queues", "2")
    said(cluster, "group", "create", group)
    send(cluster, *(hanabi.Message(topic, str(number).encode()) for number in range(messages)))


def offsets(cluster: Serving, group: str, topic: str) -> list[int | None]:
    return [each["groupOffset"] for each in answer(cluster, "offset", "show", group, topic)]


def test_a_group_without_members_is_set_and_shown(cluster: Serving) -> None:
    place(cluster, "Still", "still")
    shown = answer(cluster, "offset", "show", "still", "Still")
    assert set(shown[0]) == {"topic", "broker", "queueId", "minOffset", "maxOffset", "groupOffset", "lag"}
    ends = [each["maxOffset"] for each in shown]
    assert (offsets(cluster, "still", "Still"), sum(ends)) == ([None, None], 6)

    planned = answer(cluster, "offset", "reset", "still", "Still", "--to", "last", "--dry-run")
    assert (planned["online"], [move["newOffset"] for move in planned["moves"]]) == (False, ends)
    assert offsets(cluster, "still", "Still") == [None, None]

    assert answer(cluster, "offset", "reset", "still", "Still", "--to", "last", "--yes") == planned
    assert offsets(cluster, "still", "Still") == ends
    again = answer(cluster, "offset", "reset", "still", "Still", "--to", "last", "--yes")
    assert [move["oldOffset"] for move in again["moves"]] == ends

    said(cluster, "offset", "reset", "still", "Still", "--to", "first", "--yes")
    assert offsets(cluster, "still", "Still") == [0, 0]
    said(cluster, "offset", "reset", "still", "Still", "--to", "1", "--queue", "1", "--yes")
    assert offsets(cluster, "still", "Still") == [0, 1]
    said(cluster, "offset", "reset", "still", "Still", "--to-offset", "2", "--yes")
    assert offsets(cluster, "still", "Still") == [2, 2]
    said(cluster, "offset", "reset", "still", "Still", "--to-offset", "1", "--queue", "0", "--yes")
    assert offsets(cluster, "still", "Still") == [1, 2]
    said(cluster, "offset", "skip", "still", "Still", "--yes")
    assert offsets(cluster, "still", "Still") == ends


def test_a_time_leads_to_what_was_stored_then(cluster: Serving) -> None:
    place(cluster, "Timed", "timed", messages=4)
    time.sleep(0.02)
    since = time.time_ns() // 1_000_000
    ends = [each["maxOffset"] for each in answer(cluster, "offset", "show", "timed", "Timed")]
    send(cluster, *(hanabi.Message("Timed", b"later") for _ in range(4)))
    moved = answer(cluster, "offset", "reset", "timed", "Timed", "--to", str(since), "--yes")
    # Brokers of 4.9 give the message that is nearest to the time, be it before or after.
    assert all(move["newOffset"] - end in (-1, 0) for move, end in zip(moved["moves"], ends, strict=True))


def test_offsets_are_copied_to_a_group_that_sleeps(cluster: Serving) -> None:
    place(cluster, "Copied", "original")
    said(cluster, "group", "create", "copy")
    assert "nothing to copy" in refusal(cluster, 1, "offset", "clone", "original", "copy", "--yes")
    said(cluster, "offset", "skip", "original", "Copied", "--yes")
    said(cluster, "offset", "clone", "original", "copy", "--dry-run")
    assert offsets(cluster, "copy", "Copied") == [None, None]
    moves = answer(cluster, "offset", "clone", "original", "copy", "--yes")
    assert [set(move) for move in moves] == [{"topic", "broker", "queueId", "oldOffset", "newOffset"}] * 2
    assert offsets(cluster, "copy", "Copied") == offsets(cluster, "original", "Copied")


def test_members_that_are_online_go_back_and_consume_again(cluster: Serving) -> None:
    place(cluster, "Live", "live")
    seen: queue.Queue[object] = queue.Queue()
    consumer = hanabi.PushConsumer("live", namesrv=cluster.namesrv, persist_offsets_s=0.2, rebalance_s=1)
    consumer.subscribe("Live")
    consumer.listener(seen.put)
    with consumer:
        said(cluster, "offset", "reset", "live", "Live", "--to", "first", "--yes")
        for _ in range(6):
            seen.get(timeout=60)
        done = answer(cluster, "offset", "reset", "live", "Live", "--to", "first", "--yes")
        assert done["online"] is True
        for _ in range(6):
            seen.get(timeout=60)
        sentence = refusal(cluster, 1, "offset", "reset", "live", "Live", "--to", "0", "--queue", "0", "--yes")
        assert "members online" in sentence
        said(cluster, "group", "create", "live_source")
        said(cluster, "offset", "skip", "live_source", "Live", "--yes")
        assert "stop them first" in refusal(cluster, 1, "offset", "clone", "live_source", "live", "--yes")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["show", "nobody", "Wrong"], 1, "knows group nobody"),
        (["show", "wrong", "Nowhere"], 1, "no broker serves topic Nowhere"),
        (["reset", "wrong", "Wrong", "--to", "sometime"], 2, "must be a time"),
        (["reset", "wrong", "Wrong", "--to", "10", "--yes"], 2, "1970-01-01T00:00:00.010Z"),
        (["reset", "wrong", "Wrong", "--to", "10", "--yes"], 2, "--to-offset 10"),
        (["reset", "wrong", "Wrong", "--to", "1700000000", "--yes"], 2, "--to 1700000000 is in seconds"),
        (["reset", "wrong", "Wrong", "--to", "17000000000000", "--yes"], 2, "write it as a date"),
        (["reset", "wrong", "Wrong", "--yes"], 2, "say where to, once"),
        (["reset", "wrong", "Wrong", "--to", "first", "--to-offset", "1", "--yes"], 2, "say where to, once"),
        (["reset", "wrong", "Wrong", "--to", "first"], 2, "say --yes"),
        (["reset", "wrong", "Wrong", "--to", "99", "--queue", "0"], 1, "99 is none of them"),
        (["reset", "wrong", "Wrong", "--to", "0", "--queue", "7"], 1, "has no queue 7"),
        (["skip", "wrong", "Wrong"], 2, "say --yes"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(cluster: Serving, arguments: list[str], code: int, words: str) -> None:
    if "Wrong" not in said(cluster, "topic", "list"):
        place(cluster, "Wrong", "wrong")
    assert words in refusal(cluster, code, "offset", *arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reset", "unread", "Unread", "--to", "first"], "topic Unread has no queue that can be read"),
        (["skip", "unread", "Unread"], "topic Unread has no queue that can be read"),
        (["reset", "unread", "Unread", "--to", "0", "--queue", "1"], "topic Unread has no queue 1 that can be read"),
    ],
)
def test_a_topic_that_nobody_may_read_has_no_offsets_to_set(cluster: Serving, arguments: list[str], words: str) -> None:
    if "Unread" not in said(cluster, "topic", "list"):
        said(cluster, "topic", "create", "Unread", "--queues", "2", "--perm", "W")
        said(cluster, "group", "create", "unread")
    assert words in refusal(cluster, 1, "offset", *arguments, "--yes")
