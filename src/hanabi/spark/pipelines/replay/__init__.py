"""The pipeline `replay`: messages are sent to a topic again."""

from hanabi.spark.pipelines.replay.pipeline import PIPELINE, ReplayOptions, run

__all__ = ["PIPELINE", "ReplayOptions", "run"]
