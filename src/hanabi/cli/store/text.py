"""The output of `hanabi store`: text, and messages as JSON."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from hanabi.cli.shared.message_line import MessageLine, message_line
from hanabi.cli.shared.output import printable
from hanabi.cli.shared.times import time_text
from hanabi.errors import MQError
from hanabi.store.inspection.overview import Overview
from hanabi.store.inspection.raw_entries import IndexLine, QueueLine
from hanabi.store.inspection.verify.verify import VerifyReport
from hanabi.wire.message import sysflag
from hanabi.wire.message.record import Record
from hanabi.wire.message.stored import to_message


def _table(rows: Iterable[Sequence[str | int]], *, indent: str = "  ") -> Iterator[str]:
    """Rows in columns: numbers to the right, text to the left."""
    cells = [[(f"{cell:,}" if isinstance(cell, int) else printable(cell), cell) for cell in row] for row in rows]
    widths = [max(len(text) for text, _ in column) for column in zip(*cells, strict=True)]
    for row in cells:
        aligned = (
            text.rjust(width) if isinstance(cell, int) else text.ljust(width)
            for (text, cell), width in zip(row, widths, strict=True)
        )
        yield (indent + "  ".join(aligned)).rstrip()


def _count(number: int, noun: str, nouns: str | None = None) -> str:
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def overview_text(store: Overview) -> str:
    """Return the output of `hanabi store info`."""
    log = store.log
    lines = [
        f"store {store.home}",
        f"  abort {'present: a broker runs here, or did not stop cleanly' if store.abort else 'absent'}",
        f"  lock {'present' if store.lock else 'absent'}",
        "",
        f"commit log: offsets {log.min_offset:,} to {log.max_offset:,},"
        f" {_count(len(log.files), 'file')}, {log.bytes:,} bytes",
        f"  stored {time_text(log.earliest_stored_ms)} to {time_text(log.latest_stored_ms)}",
    ]
    if log.ends_with:
        lines.append(f"  ends at {log.max_offset:,} with a broken record: {log.ends_with}")
    lines += _table(
        (
            file.name,
            file.bytes,
            "bytes, offsets",
            file.min_offset,
            "to",
            file.max_offset,
            time_text(file.first_stored_ms),
        )
        for file in log.files
    )
    lines += ["", f"consume queues: {_count(store.topics, 'topic')}, {_count(len(store.queues), 'queue')}"]
    lines += _table(
        (queue.topic, queue.queue_id, "offsets", queue.min_offset, "to", queue.max_offset, "count", queue.count)
        for queue in store.queues
    )
    lines += ["", f"key index: {_count(len(store.index), 'file')}"]
    for file in store.index:
        lines.append(
            f"  {file.name}  {file.bytes:,} bytes, {_count(file.entries, 'entry', 'entries')},"
            f" log offsets {file.min_log_offset:,} to {file.max_log_offset:,},"
            f" stored {time_text(file.begin_ms)} to {time_text(file.end_ms)}"
        )
    lines += ["", "checkpoint:" if store.checkpoint else "checkpoint: absent"]
    if store.checkpoint:
        times = (
            ("log", store.checkpoint.log_ms),
            ("queues", store.checkpoint.queues_ms),
            ("index", store.checkpoint.index_ms),
        )
        lines += _table((name, time_text(time_ms or None)) for name, time_ms in times)
        if store.checkpoint.problem:
            lines.append(f"  damaged: {store.checkpoint.problem}")
    lines += ["", f"config: {_count(len(store.config), 'table')}"]
    lines += _table(
        (table.name, table.bytes, f"bytes, damaged: {table.problem}" if table.problem else "bytes")
        for table in store.config
    )
    return "\n".join(lines) + "\n"


def verify_text(report: VerifyReport) -> str:
    """Return the output of `hanabi store verify`."""
    log, queues, index = report.log, report.queues, report.index
    lines = [
        f"commit log      {_count(log.records, 'record')} in {_count(log.files, 'file')},"
        f" offsets {log.min_offset:,} to {log.max_offset:,}",
        f"consume queues  {_count(queues.entries, 'entry', 'entries')} in {_count(queues.queues, 'queue')}",
        f"key index       {_count(index.entries, 'entry', 'entries')} in {_count(index.files, 'file')}",
    ]
    notes = (
        (log.broken, f"stretches of the log have no valid record: {log.broken_bytes:,} bytes"),
        (queues.expired + index.expired, "entries of messages that the log no longer has"),
        (queues.deleted, "messages of topics that were deleted since"),
        (queues.pending, "messages without an entry yet: the broker makes it, or makes it at its next start"),
    )
    lines += [f"  {number:,} {what}" for number, what in notes if number]
    if report.clean:
        return "\n".join([*lines, "no damage found"]) + "\n"
    lines.append(f"DAMAGED in {_count(report.damage_count, 'place')}; the first of each file:")
    for damage in report.damage:
        place = f"{damage.file} at byte {damage.position:,}"
        if damage.queue_offset is not None:
            place += f" (queue offset {damage.queue_offset:,})"
        elif damage.log_offset is not None:
            place += f" (log offset {damage.log_offset:,})"
        more = f" [and {damage.count - 1:,} more]" if damage.count > 1 else ""
        lines.append(printable(f"  {place}: {damage.reason}{more}"))
    return "\n".join(lines) + "\n"


def record_line(record: Record) -> MessageLine:
    """*record* for a program to read."""
    try:
        return message_line(to_message(record))
    except MQError as error:  # a compression that is not installed, or a body that is none
        packed = to_message(msgspec.structs.replace(record, sys_flag=record.sys_flag & ~sysflag.COMPRESSED))
        return message_line(packed, sys_flag=record.sys_flag, problem=str(error))


def entry_text(entry: QueueLine | IndexLine) -> str:
    """Return an entry of a queue or of the index, in one line."""
    if isinstance(entry, QueueLine):
        line = (
            f"{entry.topic}/{entry.queue_id} {entry.queue_offset}: log offset {entry.log_offset}, size {entry.size},"
            f" tags code {entry.tags_code}"
        )
    else:
        line = (
            f"{entry.file} {entry.number}: hash {entry.key_hash}, log offset {entry.log_offset},"
            f" stored {time_text(entry.stored_ms)}, previous {entry.previous}"
        )
    return printable(line) + "\n"
