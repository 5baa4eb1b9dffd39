"""The times of a queue's messages in words, as Java writes them."""

import time
from collections.abc import Iterator

import pytest

from hanabi.broker.handlers.admin.support.time_span_5 import time_span_of_5
from hanabi.message import MessageQueue
from hanabi.wire.bodies.offsets import QueueTimeSpan
from hanabi.wire.fastjson import encode_body


@pytest.fixture
def in_japan(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_times_are_also_told_in_words_of_this_time_zone(in_japan: None) -> None:
    queue = MessageQueue("T", "b", 0)
    span = QueueTimeSpan(
        message_queue=queue, min_time_stamp=-1, max_time_stamp=1_700_000_000_007, consume_time_stamp=2**63 - 1
    )
    assert encode_body(time_span_of_5(span)) == (
        b'{"consumeTimeStamp":9223372036854775807,"consumeTimeStampStr":"292278994-08-17#16:12:55:807","delayTime":0,'
        b'"maxTimeStamp":1700000000007,"maxTimeStampStr":"2023-11-15#07:13:20:007",'
        b'"messageQueue":{"brokerName":"b","queueId":0,"topic":"T"},'
        b'"minTimeStamp":-1,"minTimeStampStr":"1970-01-01#08:59:59:999"}'
    )
