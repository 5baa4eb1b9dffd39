"""The pipeline `traffic`: reports on messages, bytes and latencies."""

from hanabi.spark.pipelines.traffic.pipeline import PIPELINE, TrafficOptions, run

__all__ = ["PIPELINE", "TrafficOptions", "run"]
