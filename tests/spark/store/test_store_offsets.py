"""`startingOffsets` and `endingOffsets` of the store reader: just these messages of these queues."""

from pathlib import Path

import pytest

from hanabi.errors import ConfigError
from hanabi.spark.shared.selection import Selection
from tests.spark.reading import numbers, rows
from tests.store.sample_stores import make_store


def test_only_messages_between_the_offsets_are_read(tmp_path: Path) -> None:
    make_store(tmp_path / "store", 30, queues=3)
    whole = rows(tmp_path / "store")
    topic = whole[0]["topic"]
    found = rows(
        tmp_path / "store",
        startingOffsets=f'{{"{topic}": {{"0": 4, "2": 9}}}}',
        endingOffsets=f'{{"{topic}": {{"0": 6, "1": 0, "2": 99}}}}',
    )
    expected = [
        row
        for row in whole
        if (row["queueId"] == 0 and 4 <= row["queueOffset"] < 6) or (row["queueId"] == 2 and row["queueOffset"] >= 9)
    ]
    assert numbers(found) == numbers(expected)
    assert len(found) == 3


@pytest.mark.parametrize("text", ['{"T": 3}', '{"T": {"x": 3}}', '{"T": {"0": -3}}', '{"T": {"0": "3"}}'])
def test_offsets_of_another_form_are_refused(tmp_path: Path, text: str) -> None:
    make_store(tmp_path / "store", 3)
    with pytest.raises(ConfigError, match="option startingOffsets, topic T: must be offsets by queue"):
        rows(tmp_path / "store", startingOffsets=text)


def test_what_is_told_about_offsets_and_what_is_there_must_both_hold() -> None:
    selection = Selection(from_offsets={("t", 0): 7}, to_offsets={("t", 0): 30})
    assert selection.offsets_of("t", 0, 1, 99) == (7, 30)
    assert selection.offsets_of("t", 0, 8, 20) == (8, 20)
    assert selection.offsets_of("t", 1, 6, 9) == (6, 9)
