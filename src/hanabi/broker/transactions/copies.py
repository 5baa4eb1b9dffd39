"""Copies of a half message: left behind by a crash, a repeated send or a late answer.

Renewing a half message makes a copy of it, and a producer whose send timed out sends it again. All copies have one
unique key, so the key index finds them. Apache does not search, and commits such a message twice; so does this broker
without an index (messageIndexEnable off).
"""

from typing import Final

from hanabi.broker.transactions.half_message import HalfMessage
from hanabi.store.read.queries import Queries
from hanabi.wire.message import sysflag
from hanabi.wire.message.record import Record, decode_record
from hanabi.wire.system_names import HALF_TOPIC

_LOOKED_AT_MAX: Final = 16
_EARLIER_MS: Final = 600_000  # a send that timed out may reach the log after its retry
_FOR_EVER: Final = 2**63 - 1
_PAUSES_MAX: Final = 2 * _LOOKED_AT_MAX  # of a search: this runs on the event loop, and unique keys have short chains


class Copies:
    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def has_newer(self, half: HalfMessage) -> bool:
        """Return whether a newer copy of *half* exists: that one decides."""
        return any(copy.log_offset > half.record.log_offset for copy in self._find(HALF_TOPIC, half))

    def is_committed(self, half: HalfMessage) -> bool:
        """Return whether the message of this transaction was already committed."""
        topic = half.real_topic
        return topic is not None and any(
            sysflag.transaction_type(message.sys_flag) == sysflag.TRANSACTION_COMMIT
            for message in self._find(topic, half)
        )

    def _find(self, topic: str, half: HalfMessage) -> list[Record]:
        key = half.unique_key
        if not key:
            return []
        since_ms = half.record.store_timestamp_ms - _EARLIER_MS
        pauses = iter(range(_PAUSES_MAX))
        found = self._queries.by_unique_key(
            *(topic, key, _LOOKED_AT_MAX, since_ms, _FOR_EVER, lambda: next(pauses, None) is not None), unconfirmed=True
        )
        records = (decode_record(record) for record in found.records)
        return [record for record in records if record.body == half.record.body]
