"""Dead letters: who failed on what, and back again."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hanabi.errors import ConfigError
from hanabi.spark.pipelines.archive_read import read_archive
from hanabi.spark.pipelines.dead_letters.pipeline import DeadLettersOptions, replay_command
from hanabi.spark.pipelines.dead_letters.tables import OLDEST, Letters, summarize
from hanabi.spark.pipelines.support.text import body_text
from tests.cli.messages.test_dlq import LETTERS, kill_letters
from tests.serving import serving
from tests.spark.broker_world import read
from tests.spark.pipelines.running import run_pipeline
from tests.spark.pipelines.tables import only, rows_of


def test_dead_letters_are_counted_shown_kept_and_sent_again(spark: SparkSession, tmp_path: Path) -> None:
    with serving(tmp_path / "broker") as broker:
        none = run_pipeline(spark, "dead-letters", namesrv=broker.namesrv)
        assert none.facts == {"dead_letters": 0, "groups": 0}
        kill_letters(broker, "Mortal", "mortal")
        kill_letters(broker, "Frail", "frail")
        found = run_pipeline(spark, "dead-letters", namesrv=broker.namesrv, samples=2)
        assert (found.facts["dead_letters"], found.facts["groups"]) == (2 * LETTERS, 2)
        assert [only(row, "group", "origin topic", "messages") for row in rows_of(found, "Dead letters")] == [
            ("frail", "Frail", LETTERS),
            ("mortal", "Mortal", LETTERS),
        ]
        assert [only(row, "group", "tag", "messages") for row in rows_of(found, "By tag")] == [
            ("frail", "a", LETTERS),
            ("mortal", "a", LETTERS),
        ]
        assert {only(row, "age", "messages") for row in rows_of(found, "By age")} == {("under an hour", LETTERS)}
        samples = rows_of(found, "The latest")
        assert len(samples) == 4
        assert all(str(row["body"]).startswith("letter ") for row in samples)

        kept = run_pipeline(
            spark, "dead-letters", namesrv=broker.namesrv, groups=["mortal"], export=str(tmp_path / "kept"), resend=True
        )
        assert (kept.facts["messages_exported"], kept.facts["messages_sent"]) == (LETTERS, LETTERS)
        assert read_archive(spark, str(tmp_path / "kept")).count() == LETTERS
        assert kept.complaint is None
        assert read(spark, broker, "topic string", subscribe="Mortal").count() == 2 * LETTERS

        # An archive of dead letters says where they came from, too.
        again = run_pipeline(spark, "replay", namesrv=broker.namesrv, archive=str(tmp_path / "kept"), to_origin=True)
        assert rows_of(again, "Sent") == [{"topic": "Mortal", "messages": LETTERS, "bytes": 8 * LETTERS}]


def test_the_command_that_sends_them_again_is_told() -> None:
    options = DeadLettersOptions(namesrv="h:1", groups=["a", "b"], since="2026-11-15T06:00:00")
    assert replay_command(options) == (
        "hanabi pipeline run replay --namesrv h:1 --topics %DLQ%a,%DLQ%b --since 2026-11-15T06:00:00 --to-origin"
    )
    skipping = DeadLettersOptions(on_damage="skip")
    assert replay_command(skipping).endswith("--on-damage skip --to-origin")
    assert (skipping.archiving("x").on_damage, skipping.replaying().on_damage) == ("skip", "skip")
    assert replay_command(DeadLettersOptions()) == "hanabi pipeline run replay --pattern %DLQ%.+ --to-origin"


def test_tables_have_the_most_letters_first_and_so_many_rows() -> None:
    def letters(group: str, tags: str | None, age: str, messages: int) -> Letters:
        return Letters(group, "T", tags, 16, age, messages, 10 * messages, 1_000, 2_000)

    counts = [
        letters("a", "x", OLDEST, 1),
        letters("a", "y", "under an hour", 5),
        letters("b", None, "under a day", 3),
        letters("a", "x", "under an hour", 1),
    ]
    whole, tags, ages, tries = summarize(counts, 2)
    assert whole.rows == [
        ["a", "T", 7, 70, "1970-01-01T00:00:01.000Z", "1970-01-01T00:00:02.000Z"],
        ["b", "T", 3, 30, "1970-01-01T00:00:01.000Z", "1970-01-01T00:00:02.000Z"],
    ]
    assert tags.rows == [["a", "y", 5], ["b", None, 3]]
    assert summarize(counts, 9)[2].rows == [["a", "under an hour", 6], ["a", OLDEST, 1], ["b", "under a day", 3]]
    assert (len(ages.rows), tries.rows) == (2, [["a", 16, 7], ["b", 16, 3]])


def test_options_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match="option rate is for --resend, which is not given"):
        DeadLettersOptions(rate=3)
    with pytest.raises(ConfigError, match="option export keeps all dead letters of a group"):
        DeadLettersOptions(export="x", since="1")
    with pytest.raises(ConfigError, match="since='soon'"):
        DeadLettersOptions(since="soon")


def test_a_body_is_shown_as_text_if_it_is_some() -> None:
    assert (body_text("grün".encode()), body_text(b""), body_text(None)) == ("grün", "", "")
    assert body_text(b"\xff\x00") == "0xff00"
    assert body_text(b"x" * 200) == "x" * 120 + "..."
    assert body_text(b"\xff" * 200) == "0x" + "ff" * 60 + "..."
