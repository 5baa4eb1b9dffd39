"""The pipeline `audit`: log, consume queues and index of a store compared with each other."""

from hanabi.spark.pipelines.audit.pipeline import PIPELINE, AuditOptions, run

__all__ = ["PIPELINE", "AuditOptions", "run"]
