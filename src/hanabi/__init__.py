"""Hanabi: a RocketMQ-compatible message queue in Python, whose data pipelines run on Spark."""

from hanabi._version import __version__

__all__ = ["__version__"]
