"""Attributes of topics: what is taken and what is refused."""

import pytest

from hanabi.broker.handlers.admin.support.topic_attributes import changed_attributes
from hanabi.errors import InvalidParameter


def test_no_change_is_no_change() -> None:
    assert changed_attributes(None, None, is_new=True) is None
    assert changed_attributes({"message.type": "FIFO"}, "", is_new=False) == {"message.type": "FIFO"}


@pytest.mark.parametrize("value", ["-1", "0", "3600000"])
def test_a_reserve_time_is_a_number(value: str) -> None:
    assert changed_attributes(None, f"+reserve.time={value}", is_new=True) == {"reserve.time": value}


@pytest.mark.parametrize(
    ("text", "is_new", "says"),
    [
        ("message.type=FIFO", True, "add/alter attribute format is wrong"),
        ("message.type", True, "delete attribute format is wrong"),
        ("+=x", True, "kv string format wrong"),
        ("+message.type=FIFO,+message.type=DELAY", True, "alter duplication key"),
        ("+colour=blue", True, "unsupported key: colour"),
        ("-message.type", True, "only add attribute"),
        ("-reserve.time", False, "nonexistent key"),
        ("+queue.type=SimpleCQ", False, "unchangeable"),
        ("+message.type=ROUND", True, "must be one of"),
        ("+cleanup.policy=COMPACTION", True, "must be one of DELETE"),
        ("+reserve.time=soon", True, "must be a number"),
        ("+reserve.time=" + "9" * 5000, True, "must be a number"),
    ],
)
def test_a_bad_change_is_refused_whole(text: str, is_new: bool, says: str) -> None:
    with pytest.raises(InvalidParameter, match=says.replace("/", ".")):
        changed_attributes({"message.type": "FIFO"}, text, is_new=is_new)
