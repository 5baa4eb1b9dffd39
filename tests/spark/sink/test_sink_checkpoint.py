"""Tests of what a sink is told by the checkpoint of its stream, on a real session: whether a batch was finished
before."""

import uuid
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage

from hanabi.spark.sink.check import has_finished_batches


def asking_source(told: Path) -> type[DataSource]:
    """Return a sink that throws rows away and appends to *told* what its checkpoint tells, where Spark makes its
    writers."""
    unique = f"asking{uuid.uuid4().hex}"  # sessions of one Spark share their names

    class Writer(DataSourceStreamWriter):
        def write(self, iterator: Any) -> WriterCommitMessage:
            for _ in iterator:
                pass
            return WriterCommitMessage()

    class Asking(DataSource):
        @classmethod
        def name(cls) -> str:
            return unique

        def streamWriter(self, schema: Any, overwrite: bool) -> Writer:  # noqa: N802 - Spark's name
            with told.open("a") as file:
                file.write(f"{has_finished_batches(self.options['checkpointLocation'])}\n")
            return Writer()

    return Asking


def answers(spark: SparkSession, checkpoint: str, home: Path) -> list[str]:
    """Return what the writers of a stream of one new file have been told."""
    told = home / "told"
    told.unlink(missing_ok=True)
    words = home / "words"
    words.mkdir(exist_ok=True)
    (words / f"{len(list(words.iterdir()))}.txt").write_text("word\n")
    source = asking_source(told)
    spark.dataSource.register(source)
    stream = spark.readStream.text(words.as_uri()).writeStream.format(source.name())
    query = stream.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    return told.read_text().split()


def test_a_checkpoint_on_this_disk_tells_whether_a_batch_was_finished(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    assert answers(spark, checkpoint, tmp_path)[0] == "False"
    assert set(answers(spark, checkpoint, tmp_path)) == {"True"}


def test_a_path_without_a_scheme_may_be_elsewhere_and_then_a_batch_is_taken_for_finished(
    spark: SparkSession, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    settings = {
        "fs.defaultFS": "viewfs://elsewhere/",
        "fs.viewfs.mounttable.elsewhere.link./jobs": there.as_uri(),
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        told = answers(spark, "/jobs/checkpoint", tmp_path)
    finally:
        for name in settings:
            spark.conf.unset(name)
    assert (there / "checkpoint" / "commits" / "0").is_file(), "that is where Spark has put it"
    assert not Path("/jobs/checkpoint").exists()
    assert set(told) == {"True"}
