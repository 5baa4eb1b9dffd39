"""Offsets in checkpoints and options, and the options that say where to begin and what to read."""

import json

import pytest

from hanabi.errors import ConfigError
from hanabi.message import MessageQueue
from hanabi.spark.broker.options import parse_batch_options, parse_stream_options
from hanabi.spark.broker.topics import Wanted
from hanabi.spark.shared.offsets import from_json, to_json

BASE = {"namesrv": "127.0.0.1:9876", "subscribe": "Orders"}


def test_offsets_survive_their_json_and_are_written_in_order() -> None:
    offsets = {
        MessageQueue("Orders", "broker-b", 0): 5,
        MessageQueue("Orders", "broker-a", 10): 7,
        MessageQueue("Orders", "broker-a", 9): 6,
        MessageQueue("Bills", "broker-a", 0): 1,
    }
    told = to_json(offsets)
    expected = '{"Bills": {"broker-a": {"0": 1}}, "Orders": {"broker-a": {"9": 6, "10": 7}, "broker-b": {"0": 5}}}'
    assert json.dumps(told) == expected
    assert from_json(json.loads(expected), "here") == offsets
    assert json.dumps(to_json(dict(reversed(offsets.items())))) == expected


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ([], "must be of the form"),
        ({"Orders": 3}, "topic Orders: must be of the form"),
        ({"Orders": {"broker-a": 3}}, "broker broker-a: must be of the form"),
        ({"Orders": {"broker-a": {"x": 3}}}, "named by its number"),
        ({"Orders": {"broker-a": {"0": "3"}}}, "must be a whole number"),
        ({"Orders": {"broker-a": {"0": True}}}, "must be a whole number"),
        ({"Orders": {"broker-a": {"0": -1}}}, "at least 0"),
    ],
)
def test_malformed_offsets_are_told_with_their_place(told: object, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        from_json(told, "option startingOffsets")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"subscribe": ""}, "which topics to read is not said"),
        ({"assign": '{"Orders": [0]}'}, "subscribe and assign exclude each other"),
        ({"subscribe": "", "assign": '{"Orders": "all"}'}, "must be numbers of queues"),
        ({"subscribe": "", "assign": "[0]"}, "must be a JSON object"),
        ({"subscribe": "", "subscribePattern": "("}, "no regular expression"),
        ({"subscribes": "Orders"}, "did you mean 'subscribe'"),
        ({"startingOffsets": "begin"}, "must be earliest, latest, or JSON"),
        ({"startingOffsets": "{"}, "is not JSON"),
        ({"startingOffsets": "latest"}, "must not be latest in a batch"),
        ({"endingOffsets": "earliest"}, "must not be earliest"),
        ({"startingTimestamp": "yesterday"}, "milliseconds since 1970"),
        ({"startingTimestamp": "5", "endingTimestamp": "4"}, "lies behind"),
        ({"tags": "a", "sql": "b = 1"}, "exclude each other"),
        ({"tags": "||"}, "no tag in"),
        ({"accessKey": "me"}, "need each other"),
        ({"tlsTrustCertPath": "ca.pem"}, "tls=true is not"),
        ({"namesrv": "nowhere"}, "namesrv"),
        ({"minPartitions": "0"}, "at least 1"),
    ],
)
def test_a_bad_option_is_one_sentence_that_names_it(given: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse_batch_options(BASE | given)


def test_a_stream_begins_at_the_end_and_a_batch_at_the_beginning() -> None:
    assert parse_stream_options(BASE).read.starting.otherwise == "latest"
    assert parse_batch_options(BASE).read.starting.otherwise == "earliest"


def test_a_stream_has_no_end() -> None:
    with pytest.raises(ConfigError, match="a stream of rocketmq has no option 'endingOffsets'"):
        parse_stream_options(BASE | {"endingOffsets": "latest"})
    with pytest.raises(ConfigError, match="is more than"):
        parse_stream_options(BASE | {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"})


def test_special_numbers_stand_for_the_ends_of_a_queue() -> None:
    given = BASE | {"startingOffsets": '{"Orders": {"broker-a": {"0": -2, "1": -1, "2": 7}}}'}
    starting = parse_batch_options(given).read.starting
    queues = [MessageQueue("Orders", "broker-a", number) for number in range(4)]
    assert [starting.resolve(queue, 3, 9) for queue in queues] == [3, 9, 7, 3]


def test_a_pattern_takes_no_topic_of_the_brokers_themselves() -> None:
    topics = ["Orders", "Bills", "TBW102", "SCHEDULE_TOPIC_XXXX", "%RETRY%billing", "%DLQ%billing"]
    assert Wanted(pattern=".*").matching(topics) == ["Bills", "Orders"]
    assert Wanted(pattern="%DLQ%.*").matching(topics) == ["%DLQ%billing"]


def test_assigned_queues_may_be_of_one_broker_or_of_all() -> None:
    everywhere = Wanted(assigned=frozenset({("Orders", "", 1)}))
    here = Wanted(assigned=frozenset({("Orders", "broker-a", 1)}))
    one, other = MessageQueue("Orders", "broker-a", 1), MessageQueue("Orders", "broker-b", 1)
    assert (everywhere.has(one), everywhere.has(other)) == (True, True)
    assert (here.has(one), here.has(other)) == (True, False)
    assert here.missing([other]) == ["topic Orders, queue 1 of broker-a"]
