"""The values that everybody shares."""

from typing import Any

import msgspec
import pytest

from hanabi.errors import InvalidMessage
from hanabi.message import Address, Message, MessageQueue


def test_queues_sort_as_in_java_by_topic_then_broker_then_number() -> None:
    queues = [
        MessageQueue("B", "broker-a", 0),
        MessageQueue("A", "broker-b", 0),
        MessageQueue("A", "broker-a", 10),
        MessageQueue("A", "broker-a", 9),
    ]
    assert sorted(queues) == list(reversed(queues))


def test_a_queue_is_written_with_javas_names() -> None:
    queue = MessageQueue("A", "broker-a", 3)
    written = b'{"topic":"A","brokerName":"broker-a","queueId":3}'
    assert msgspec.json.encode(queue) == written
    assert msgspec.json.decode(written, type=MessageQueue) == queue
    assert len({queue, MessageQueue("A", "broker-a", 3)}) == 1


def test_keys_may_be_one_text_with_spaces_or_a_sequence() -> None:
    assert list(Message("T", b"", keys="a b").keys) == ["a", "b"]
    assert list(Message("T", b"", keys=["a", "b"]).keys) == ["a", "b"]


@pytest.mark.parametrize("keys", [(key for key in ("a", "b")), {"a": 1, "b": 2}.keys(), map(str.lower, "AB")])
def test_keys_that_can_be_read_once_are_kept(keys: Any) -> None:
    message = Message("T", b"", keys=keys)
    assert list(message.keys) == list(message.keys) == ["a", "b"]


@pytest.mark.parametrize("key", ["", "a b"])
def test_a_key_that_would_be_read_back_as_another_is_refused(key: str) -> None:
    with pytest.raises(InvalidMessage, match=f"keys: '{key}' is none"):
        Message("T", b"", keys=[key])


@pytest.mark.parametrize("keys", [42, [42], None, b"ab", [b"ab"]])
def test_keys_that_are_no_texts_are_refused(keys: Any) -> None:
    with pytest.raises(InvalidMessage, match="keys must be texts in a sequence"):
        Message("T", b"", keys=keys)


def test_messages_do_not_share_their_properties() -> None:
    first, second = Message("T", b""), Message("T", b"")
    first.properties["a"] = "1"
    assert not second.properties


def test_an_address_is_written_so_that_its_port_can_be_told_apart() -> None:
    assert str(Address("127.0.0.1", 10911)) == "127.0.0.1:10911"
    assert str(Address("::1", 10911)) == "[::1]:10911"
