"""Report of an archive as tables: its contents, and the log that brokers may delete."""

from hanabi.spark.pipelines.archive.home import ArchiveHome
from hanabi.spark.pipelines.archive.plan import deletable
from hanabi.spark.pipelines.archive.source import Extent
from hanabi.spark.pipelines.contract import Cell, Outcome, Table
from hanabi.spark.pipelines.support.text import moment


def report(home: ArchiveHome, extent: Extent, messages: int, seconds: float) -> Outcome:
    """Return the report of a run. *extent* must be newer than the last step."""
    state, ends = home.state, extent.end
    queues: list[list[Cell]] = [
        [
            each.topic,
            each.broker,
            each.queue_id,
            each.first,
            each.end,
            max(0, ends.get(each.queue, each.end) - each.end),
            moment(each.stored_ms),
        ]
        for each in state.queues
    ]
    brokers: list[list[Cell]] = [[each.broker, each.log_offset, each.behind] for each in deletable(state.queues, ends)]
    return Outcome(
        tables=[
            Table(
                "Archived queues: retention may delete what lies below `archived to`",
                ["topic", "broker", "queue", "first", "archived to", "behind", "last stored"],
                queues,
            ),
            Table(
                "Commit logs: retention may delete what lies below, as far as these topics matter",
                ["broker", "commit log offset", "messages behind"],
                brokers,
            ),
        ],
        facts={
            "archive": home.files.url,
            "format": state.format,
            "messages_archived": messages,
            "messages_in_archive": state.messages,
            "messages_lost": state.lost,
            "seconds": round(seconds, 1),
        },
    )
