"""Order state of all queues, and the file that keeps it: `config/consumerOrderInfo.json`, as Apache writes it.

Like Apache's it is saved at intervals and at the stop. After a crash a queue may be free early, and its messages are
delivered again; none is lost.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from hanabi.broker.pop.order_info import OrderInfo
from hanabi.broker.tables.pretty_json import pretty
from hanabi.durable_table import DurableTable
from hanabi.wire.body import Body, always_written_new
from hanabi.wire.fastjson import decode_file

KEPT_MS: Final = 24 * 3_600_000  # since the last pop
QUEUES_MAX: Final = 100_000


class OrderInfoTable(Body, frozen=True, kw_only=True):
    """The file: "topic@group", then queue id."""

    table: dict[str, dict[int, OrderInfo]] = always_written_new(dict)


class Orders:
    """Order states by topic, group and queue id. One thread changes them; `save` may run in any."""

    def __init__(self, path: Path | None, now_ms: Callable[[], int]) -> None:
        """*path* None: nothing is persisted."""
        self._now_ms = now_ms
        self._table: dict[tuple[str, str, int], OrderInfo] = {}
        self._file: DurableTable[OrderInfoTable] | None = None
        self._is_changed = False
        if path is not None:
            self._file = DurableTable(path, encode=pretty, decode=lambda raw: decode_file(raw, OrderInfoTable))
            self._load(self._file.load() or OrderInfoTable())

    def _load(self, found: OrderInfoTable) -> None:
        for key, queues in found.table.items():
            topic, _, group = key.partition("@")
            self._table.update({(topic, group, queue_id): info for queue_id, info in queues.items() if info.offsets})

    def __len__(self) -> int:
        return len(self._table)

    def items(self) -> list[tuple[tuple[str, str, int], OrderInfo]]:
        """Return a copy of all states."""
        return list(self._table.items())

    def find(self, topic: str, group: str, queue_id: int) -> OrderInfo | None:
        return self._table.get((topic, group, queue_id))

    def put(self, topic: str, group: str, queue_id: int, info: OrderInfo) -> None:
        """Replace the state of a queue."""
        self._is_changed = True
        self._table[topic, group, queue_id] = info
        if len(self._table) > QUEUES_MAX:
            self._drop_old(KEPT_MS // 24)

    def remove(self, topic: str, group: str, queue_id: int) -> None:
        """Forget the state of a queue: it is free."""
        if self._table.pop((topic, group, queue_id), None) is not None:
            self._is_changed = True

    def save(self) -> None:
        """Write the file if anything changed. Blocks for the disk."""
        if self._file is None or not self._is_changed:
            return
        self._is_changed = False
        table: dict[str, dict[int, OrderInfo]] = {}
        for (topic, group, queue_id), info in list(self._table.items()):
            table.setdefault(f"{topic}@{group}", {})[queue_id] = info
        try:
            self._file.save(OrderInfoTable(table=table))
        except BaseException:
            self._is_changed = True
            raise

    def tick(self) -> None:
        """Forget queues without an ordered pop for a day, as Apache does."""
        self._drop_old(KEPT_MS)

    def _drop_old(self, kept_ms: int) -> None:
        oldest = self._now_ms() - kept_ms
        for key in [key for key, info in self._table.items() if info.last_consumed_ms < oldest]:
            self.remove(*key)
