"""The pipeline `dead-letters`: reports on dead letters, and sending them again."""

from hanabi.spark.pipelines.dead_letters.pipeline import PIPELINE, DeadLettersOptions, run

__all__ = ["PIPELINE", "DeadLettersOptions", "run"]
