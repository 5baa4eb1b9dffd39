"""Pipelines on a cluster where there is nothing for them: an answer, and no error."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hanabi.errors import MQError
from hanabi.spark.pipelines.failures import plain_spark_errors
from tests.serving import serving
from tests.spark.pipelines.running import run_pipeline


def test_no_dead_letters_and_no_traces_are_an_answer(spark: SparkSession, tmp_path: Path) -> None:
    # A group without dead letters has no topic of them, and brokers make the trace topic with its first message.
    with serving(tmp_path / "broker") as broker:
        none = run_pipeline(spark, "dead-letters", namesrv=broker.namesrv, groups=["billing", "shop"])
        assert (none.facts, none.complaint) == ({"dead_letters": 0, "groups": 0}, None)
        traced = run_pipeline(spark, "trace", namesrv=broker.namesrv)
        assert (traced.facts["lines"], traced.facts["sends"], traced.complaint) == (0, 0, None)
        with pytest.raises(MQError, match="NoSuchTopic"), plain_spark_errors():
            run_pipeline(spark, "trace", namesrv=broker.namesrv, topics=["NoSuchTopic"])
