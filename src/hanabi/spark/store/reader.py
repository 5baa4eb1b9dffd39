"""Planning and execution of a read's tasks. Created on the driver and pickled to the workers."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from hanabi.spark.shared.columns import DAMAGE, MESSAGE, RAW, arrow_schema
from hanabi.spark.shared.plain_errors import plain_errors
from hanabi.spark.shared.worker_gc import leave_modules_alone
from hanabi.spark.store.chunks import Chunk, entry_chunks
from hanabi.spark.store.damage import Damaged, LeftOut, refuse
from hanabi.spark.store.entries import Span, task_entries
from hanabi.spark.store.log import LogReader
from hanabi.spark.store.log_scan import LogTask, log_chunks, plan_log_tasks
from hanabi.spark.store.options import StoreOptions
from hanabi.spark.store.plan import QueueTask, plan_queue_tasks
from hanabi.spark.store.rows import RowMaker

_BODIES = pa.schema([("body", pa.binary())])


class StoreReader(DataSourceReader):
    """Reader of a store's messages, or of its damage."""

    def __init__(self, options: StoreOptions, schema: StructType) -> None:
        with plain_errors():
            columns = DAMAGE if options.is_damage_report else MESSAGE | RAW
            self._schema = arrow_schema(schema, columns)
        self._options, self._selection = options, options.selection

    def partitions(self) -> list[InputPartition]:
        with plain_errors():
            if self._options.is_log_scan:
                return [*plan_log_tasks(self._options)]
            return [*plan_queue_tasks(self._options, self._selection)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        leave_modules_alone()
        with plain_errors(), LogReader(self._options.home) as log:
            if isinstance(partition, QueueTask):
                entries = task_entries(self._options.home, partition.spans, self._selection.tags_codes())
                yield from self._read(entry_chunks(entries, log, self._options.batch_rows), partition.spans)
            elif isinstance(partition, LogTask):
                yield from self._read(log_chunks(partition, log, self._options.batch_rows), ())
            # Spark passes a placeholder partition if there is nothing to read.

    def _read(self, chunks: Iterable[Chunk], spans: tuple[Span, ...]) -> Iterator[pa.RecordBatch]:
        return self._damage(chunks, spans) if self._options.is_damage_report else self._messages(chunks, spans)

    def _messages(self, chunks: Iterable[Chunk], spans: tuple[Span, ...]) -> Iterator[pa.RecordBatch]:
        on_damage, root = self._options.on_damage, str(self._options.home.root)
        maker = self._row_maker(self._schema, spans, ends_at_damage=on_damage == "end")
        left_out = LeftOut(root)
        for chunk in chunks:
            batches, damaged = maker.rows(chunk)
            if damaged and on_damage == "fail":
                raise refuse(root, damaged)
            yield from batches
            left_out.add(damaged)
            if damaged and on_damage == "end":
                break
        left_out.report()

    def _damage(self, chunks: Iterable[Chunk], spans: tuple[Span, ...]) -> Iterator[pa.RecordBatch]:
        maker = self._row_maker(_BODIES, spans)
        for chunk in chunks:
            _, damaged = maker.rows(chunk)
            if damaged:
                yield self._damage_rows(damaged)

    def _row_maker(self, schema: pa.Schema, spans: tuple[Span, ...], *, ends_at_damage: bool = False) -> RowMaker:
        options = self._options
        return RowMaker(schema, self._selection, spans, options.broker_name, options.check_crc, ends_at_damage)

    def _damage_rows(self, damaged: list[Damaged]) -> pa.RecordBatch:
        columns = dict(zip(DAMAGE, zip(*damaged, strict=True), strict=True))
        return pa.RecordBatch.from_arrays(
            [pa.array(columns[field.name], field.type) for field in self._schema], schema=self._schema
        )
