"""Bodies as 5.x tells them: what it added is there, also with its default."""

from hanabi.message import MessageQueue
from hanabi.wire.bodies.of_5 import OffsetWrapper5, consume_stats_of_5
from hanabi.wire.bodies.stats import ConsumeStatsList, OffsetWrapper
from hanabi.wire.fastjson import encode_body


def test_what_was_pulled_and_is_in_flight_is_told_also_when_it_is_nothing() -> None:
    assert b"pullOffset" not in encode_body(OffsetWrapper())
    body = encode_body({MessageQueue("T", "b", 0): OffsetWrapper5()}, kind=dict[MessageQueue, OffsetWrapper])
    assert body.endswith(b':{"brokerOffset":0,"consumerOffset":0,"lastTimestamp":0,"pullOffset":0}}')
    assert encode_body(consume_stats_of_5(ConsumeStatsList(broker_addr="b:1", total_diff=3))) == (
        b'{"brokerAddr":"b:1","consumeStatsList":[],"totalDiff":3,"totalInflightDiff":0}'
    )
