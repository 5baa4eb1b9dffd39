"""The pipeline `replay`: sends messages to a topic again."""

from hanabi.spark.pipelines.replay.pipeline import PIPELINE, ReplayOptions, run

__all__ = ["PIPELINE", "ReplayOptions", "run"]
