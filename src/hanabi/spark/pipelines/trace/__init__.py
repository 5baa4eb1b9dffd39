"""The pipeline `trace`: reports on message traces."""

from hanabi.spark.pipelines.trace.pipeline import PIPELINE, TraceOptions, run

__all__ = ["PIPELINE", "TraceOptions", "run"]
