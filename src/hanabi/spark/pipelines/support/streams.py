"""Monitored streaming queries: counts of their rows, until they end or are stopped."""

import time
from collections.abc import Sequence
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from hanabi.spark.pipelines.contract import Progress
from hanabi.spark.pipelines.failures import in_one_sentence

_LOOK_S: Final = 1


class Watched:
    """One monitored query. Spark keeps only its last hundred reports, so they are summed as they arrive."""

    def __init__(self, query: StreamingQuery) -> None:
        self.query = query
        self._seen = -1
        self.batches = self.rows_read = self.duplicates = self.too_late = 0

    def look(self) -> None:
        """Add the reports since the last call."""
        for report in self.query.recentProgress:
            if report["batchId"] > self._seen and report["numInputRows"] + len(report["stateOperators"]) > 0:
                self._seen = report["batchId"]
                self._add(report)

    def _add(self, report: Any) -> None:
        self.batches += 1
        self.rows_read += int(report["numInputRows"])
        for operator in report["stateOperators"]:
            self.too_late += int(operator["numRowsDroppedByWatermark"])
            self.duplicates += int(operator["customMetrics"].get("numDroppedDuplicateRows", 0))


def follow(watched: Sequence[Watched], progress: Progress, seconds: float | None = None) -> None:
    """Wait until all queries have ended, *seconds* are over, or the user interrupts; then stop running queries.

    Raises MQError if one of them fails.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    try:
        while any(each.query.isActive for each in watched) and (deadline is None or time.monotonic() < deadline):
            next((each for each in watched if each.query.isActive), watched[0]).query.awaitTermination(_LOOK_S)
            for each in watched:
                each.look()
            progress.advance(watched[0].rows_read)
            if any(each.query.exception() is not None for each in watched):
                break
    except KeyboardInterrupt:
        pass  # the ordinary end of an unlimited run
    except StreamingQueryException as error:
        raise in_one_sentence(error) from error
    finally:
        for each in watched:
            each.query.stop()
    for each in watched:
        each.look()
        failure = each.query.exception()
        if failure is not None:
            raise in_one_sentence(failure) from failure
