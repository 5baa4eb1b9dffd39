"""The pipeline `archive`: topics to Parquet or Delta, each message exactly once."""

from hanabi.spark.pipelines.archive.pipeline import PIPELINE, ArchiveOptions, run

__all__ = ["PIPELINE", "ArchiveOptions", "run"]
