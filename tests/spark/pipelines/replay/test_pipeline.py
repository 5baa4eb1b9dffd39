"""Replay: messages of an archive, a store or a topic are sent again, as they were."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import hanabi
from hanabi.errors import ConfigError, MQError
from hanabi.spark.pipelines.replay.pipeline import ReplayOptions
from hanabi.spark.pipelines.replay.send_rate import SendRate, chunk_of
from hanabi.wire.message import property_names as names
from tests.serving import Serving, serving
from tests.spark.broker_world import make_topic, read
from tests.spark.pipelines.running import Steps, run_pipeline
from tests.spark.pipelines.tables import rows_of
from tests.spark.pipelines.written import wait_for_queues

MANY = int(os.environ.get("HANABI_REPLAY_MESSAGES", "20000"))


def send_many(serving: Serving, topic: str, count: int) -> None:
    """Send messages that differ in everything; some are compressed on their way."""
    with hanabi.Producer("tests", namesrv=serving.namesrv) as producer:
        queues = producer.queues(topic)
        for first in range(0, count, 100):
            producer.send_batch(
                [
                    hanabi.Message(
                        topic,
                        f"{number} ".encode() * (number % 40 + 1),
                        tags=f"tag{number % 3}" if number % 5 else None,
                        keys=[f"k{number}", "all"] if number % 7 else (),
                        properties={"number": str(number % 11), "text": "ä \x01 =;"} if number % 2 else {},
                    )
                    for number in range(first, min(count, first + 100))
                ],
                queue=queues[first // 100 % len(queues)],
            )


def told_apart(spark: SparkSession, serving: Serving, topic: str) -> DataFrame:
    """Keys, body, tags and properties of every message of a topic, as a fingerprint; not what clients add."""
    reserved = ",".join(f"'{name}'" for name in sorted(names.RESERVED))
    own = f"map_filter(properties, (name, value) -> name not in ({reserved}))"
    columns = "keys array<string>, body binary, tags string, properties map<string,string>"
    return read(spark, serving, columns, subscribe=topic).selectExpr(
        f"sha2(to_json(struct(keys, hex(body), tags, array_sort(map_entries({own})))), 256) as message"
    )


def test_archived_and_replayed_messages_are_the_same_multiset(spark: SparkSession, tmp_path: Path) -> None:
    # A million with HANABI_REPLAY_MESSAGES=1000000.
    with serving(tmp_path / "broker") as broker:
        source, copy = make_topic(broker, "Source"), make_topic(broker, "Copy", 3)
        send_many(broker, source, MANY)
        out = str(tmp_path / "archive")
        archived = run_pipeline(spark, "archive", namesrv=broker.namesrv, topics=[source], to=out)
        told = Steps()
        replayed = run_pipeline(spark, "replay", told, namesrv=broker.namesrv, archive=out, to=copy)
        assert archived.facts["messages_archived"] == replayed.facts["messages_sent"] == MANY
        assert told.advances[-1] == (MANY, MANY)
        assert replayed.complaint is None
        if MANY > 100_000:
            seconds = f"archived in {archived.facts['seconds']} s, replayed in {replayed.facts['seconds']} s"
            sys.stderr.write(f"{MANY} messages: {seconds}\n")
        before, after = told_apart(spark, broker, source), told_apart(spark, broker, copy)
        assert before.exceptAll(after).isEmpty()
        assert after.exceptAll(before).isEmpty()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Yield a broker with a topic of 40 messages: t0 ... t3 by tag, in one half of them the property `half`."""
    folder = tmp_path_factory.mktemp("world")
    with serving(folder) as broker:
        topic = make_topic(broker, "World", 2)
        with hanabi.Producer("tests", namesrv=broker.namesrv) as producer:
            queues = producer.queues(topic)
            for number in range(40):
                message = hanabi.Message(topic, f"{number:02}".encode(), tags=f"t{number % 4}", keys=[f"k{number}"])
                message.properties = {"half": "first"} if number < 20 else {}
                producer.send(message, queue=queues[number % 2])
        store = next(path.parent for path in folder.rglob("commitlog"))
        wait_for_queues(store, topic, 40)
        yield broker, topic, store


def bodies(spark: SparkSession, broker: Serving, topic: str) -> list[int]:
    found = read(spark, broker, "body binary, queueId int, queueOffset long", subscribe=topic).collect()
    return [int(row.body) for row in sorted(found, key=lambda row: (row.queueId, row.queueOffset))]


def test_messages_are_chosen_by_key_tag_time_and_sql(spark: SparkSession, world: Any) -> None:
    broker, topic, store = world

    def replay(to: str, **options: Any) -> list[int]:
        make_topic(broker, to, 1)
        run_pipeline(spark, "replay", namesrv=broker.namesrv, to=to, **options)
        return sorted(bodies(spark, broker, to))

    assert replay("ByKey", topics=[topic], keys=["k3", "k5", "none"]) == [3, 5]
    assert replay("ByTag", store=str(store), topics=[topic], tags=["t1", "t2"], limit=100) == [
        number for number in range(40) if number % 4 in (1, 2)
    ]
    assert replay("BySql", topics=[topic], where="properties['half'] = 'first' and queueOffset >= 8") == [
        16,
        17,
        18,
        19,
    ]
    at = {
        int(row.body): row.ms
        for row in read(spark, broker, subscribe=topic).selectExpr("body", "unix_millis(storeTimestamp) ms").collect()
    }
    expected = sorted(number for number, ms in at.items() if at[10] <= ms < at[35])
    assert replay("ByTime", topics=[topic], since=str(at[10]), until=str(at[35])) == expected
    with pytest.raises(ConfigError, match=r"option where='hafl = 1': .*hafl"):
        replay("BySql", topics=[topic], where="hafl = 1")
    with pytest.raises(ConfigError, match=r"option where='a b c': "):
        replay("BySql", topics=[topic], where="a b c")


def test_a_dry_run_shows_what_would_be_sent_and_sends_nothing(spark: SparkSession, world: Any) -> None:
    broker, topic, _ = world
    target = make_topic(broker, "Dry", 1)
    outcome = run_pipeline(
        spark, "replay", namesrv=broker.namesrv, topics=[topic], to=target, tags=["t0"], limit=3, dry_run=True
    )
    assert outcome.facts["messages_to_send"] == 3
    assert rows_of(outcome, "Would be sent") == [{"topic": target, "messages": 3, "bytes": 6}]
    assert {row["tags"] for row in rows_of(outcome, "The first")} == {"t0"}
    assert bodies(spark, broker, target) == []


def test_order_rate_and_mark_are_kept(spark: SparkSession, world: Any) -> None:
    broker, topic, _ = world
    target = make_topic(broker, "Ordered", 3)
    began = time.monotonic()
    outcome = run_pipeline(
        spark, "replay", namesrv=broker.namesrv, topics=[topic], to=target, keep_order=True, rate=40, mark="was"
    )
    assert time.monotonic() - began >= 0.9, "forty messages at forty a second"
    assert outcome.facts["messages_sent"] == 40
    sent = bodies(spark, broker, target)
    assert [number for number in sent if number % 2 == 0] == list(range(0, 40, 2))
    assert [number for number in sent if number % 2 == 1] == list(range(1, 40, 2))
    marks = read(spark, broker, subscribe=target).selectExpr("properties['was'] as was", "body").collect()
    assert {row.was: int(row.body) for row in marks} == {
        f"World/broker-a/{number % 2}/{number // 2}": number for number in range(40)
    }


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"to": "x"}, "no messages to replay: give --archive, --store, or --topics"),
        ({"topics": ["a"]}, "give either --to TOPIC or --to-origin as the destination"),
        ({"topics": ["a"], "to": "b", "to_origin": True}, "give either --to TOPIC or --to-origin"),
        ({"archive": "a", "store": "b", "to": "c"}, "options archive and store exclude each other"),
        ({"archive": "a", "pattern": "b", "to": "c"}, "option pattern is not for archives"),
        ({"topics": ["a"], "to": "a b"}, "option to: topic 'a b': only letters"),
        ({"topics": ["a"], "to": "b", "mark": "KEYS"}, "option mark=KEYS: the name has a meaning of its own"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ReplayOptions(**options)
    assert str(caught.value).startswith(sentence)


def test_a_cluster_that_is_not_there_is_told_before_anything_is_read(spark: SparkSession) -> None:
    with pytest.raises(MQError, match=r"127\.0\.0\.1:1"):
        run_pipeline(spark, "replay", namesrv="127.0.0.1:1", topics=["a"], to="b")


def test_the_pace_is_so_many_a_second_and_lost_time_is_not_made_up_for() -> None:
    now, slept = 100.0, list[float]()

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        slept.append(seconds)

    pace = SendRate(50, lambda: now, sleep)
    pace.wait_after(5)
    now += 0.04
    pace.wait_after(5)
    now += 10
    pace.wait_after(5)
    pace.wait_after(5)
    assert slept == [pytest.approx(0.1), pytest.approx(0.06), pytest.approx(0.1)]
    SendRate(None, lambda: now, sleep).wait_after(1_000)
    assert len(slept) == 3
    assert [chunk_of(rate) for rate in (0.5, 10, 200, 1e9, None)] == [1, 1, 20, 10_000, 10_000]
