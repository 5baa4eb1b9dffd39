"""Tests that the committed offset never runs ahead of consumption."""

import random

import pytest

from hanabi.client.consumer.queue_progress import QueueLimits, QueueProgress
from tests.client.consumer.stored import stored


def test_the_committable_offset_is_the_smallest_unfinished_one() -> None:
    progress = QueueProgress(10)
    messages = [stored(offset) for offset in (10, 11, 12)]
    assert progress.add(messages, 13) == messages
    progress.finish(messages[1:2])
    assert progress.committable == 10
    progress.finish(messages[:1])
    assert progress.committable == 12
    progress.finish(messages[2:])
    assert progress.committable == 13


def test_what_the_filter_kept_away_is_behind_us_once_nothing_before_it_is_unfinished() -> None:
    progress = QueueProgress(0)
    first = stored(3)
    progress.add([first], 50)
    assert progress.committable == 3
    progress.finish([first])
    assert progress.committable == 50
    progress.add([], 70)
    assert progress.committable == 70


def test_a_message_that_a_broker_gives_twice_is_consumed_once() -> None:
    progress = QueueProgress(5)
    progress.add([stored(5), stored(6)], 7)
    assert progress.add([stored(4), stored(6), stored(7)], 8) == [stored(7)]
    assert progress.count == 3
    assert progress.add([stored(5)], 6) == []
    assert progress.next_offset == 8


def test_count_bytes_and_span_follow_what_is_unfinished() -> None:
    progress = QueueProgress(0)
    messages = [stored(offset, body=b"x" * (offset + 1)) for offset in range(5)]
    progress.add(messages, 5)
    assert (progress.count, progress.body_bytes, progress.span, progress.first, progress.last) == (5, 15, 4, 0, 4)
    progress.finish(messages[3:])
    assert (progress.count, progress.body_bytes, progress.span) == (3, 6, 2)
    progress.finish(messages[3:])  # again: nothing changes
    assert (progress.count, progress.body_bytes, progress.span) == (3, 6, 2)
    progress.finish(messages)
    assert (progress.count, progress.body_bytes, progress.span, progress.first, progress.last) == (0, 0, 0, None, None)


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (QueueLimits(messages=2), "3 messages are held, limit 2"),
        (QueueLimits(body_bytes=11), "12 bytes are held, limit 11"),
        (QueueLimits(span=8), "offset 0 is unfinished and 9 is reached"),
        (QueueLimits(messages=3, body_bytes=12, span=9), None),
        (QueueLimits(span=None), None),
    ],
)
def test_a_limit_that_is_passed_is_named(limits: QueueLimits, reason: str | None) -> None:
    progress = QueueProgress(0)
    progress.add([stored(0), stored(1), stored(9)], 10)
    told = progress.over(limits)
    assert (told is None) if reason is None else (told is not None and told.startswith(reason))


def test_it_moves_only_when_nothing_is_unfinished() -> None:
    progress = QueueProgress(100)
    progress.add([stored(100)], 101)
    with pytest.raises(ValueError, match="1 messages are unfinished"):
        progress.move(7)
    progress.finish([stored(100)])
    progress.move(7)
    assert progress.committable == progress.next_offset == 7


def test_whatever_the_order_of_finishing_the_offset_never_passes_an_unfinished_message() -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    progress, next_offset, unfinished = QueueProgress(0), 0, {}
    before = 0
    for _ in range(3_000):
        if chance.random() < 0.3:
            offsets = sorted(chance.sample(range(next_offset, next_offset + 40), chance.randint(0, 20)))
            next_offset += 40
            messages = [stored(offset) for offset in offsets]
            assert progress.add(messages, next_offset) == messages
            unfinished.update({message.queue_offset: message for message in messages})
        elif unfinished:
            done = chance.sample(sorted(unfinished), chance.randint(1, min(8, len(unfinished))))
            progress.finish([unfinished.pop(offset) for offset in done])
        assert progress.committable == min(unfinished, default=next_offset), f"seed {seed}"
        assert progress.span == max(unfinished, default=0) - min(unfinished, default=0), f"seed {seed}"
        assert progress.committable >= before, f"seed {seed}"
        before = progress.committable
