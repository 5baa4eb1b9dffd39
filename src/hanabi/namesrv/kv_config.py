"""Key-value configuration: namespace -> key -> value, kept in a file of Apache's format.

    {"configTable":{"ORDER_TOPIC_CONFIG":{"Orders":"broker-a:4"}}}

A change is on disk before it is in force, so what was acknowledged survives a crash. Writing blocks for an fsync:
changes come from operators, a few a day.
"""

import logging
from pathlib import Path

import msgspec

from hanabi.durable_table import DurableTable

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"  # the namespace in which a topic's key says on which brokers it is ordered

logger = logging.getLogger(__name__)
Table = dict[str, dict[str, str]]


class _Content(msgspec.Struct):
    config_table: Table = msgspec.field(name="configTable")


class KVConfig:
    """The table and its file. Invariant: the table is what the file says."""

    def __init__(self, path: Path) -> None:
        self._file = DurableTable(path, encode=msgspec.json.encode, decode=msgspec.json.Decoder(_Content).decode)
        content = self._file.load()
        self._table: Table = content.config_table if content else {}

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """All keys and values of *namespace*; None when nothing was ever put there."""
        return self._table.get(namespace)

    def put(self, namespace: str, key: str, value: str) -> None:
        self._replace(namespace, {**self._table.get(namespace, {}), key: value})
        logger.info("KV config %s/%s is now %s", namespace, key, value)

    def delete(self, namespace: str, key: str) -> None:
        """Forget *key*. The namespace stays, also when nothing is left in it, as with Apache's KVConfigManager."""
        keys = self._table.get(namespace)
        if keys is None or key not in keys:
            return
        self._replace(namespace, {name: value for name, value in keys.items() if name != key})
        logger.info("KV config %s/%s is deleted", namespace, key)

    def _replace(self, namespace: str, keys: dict[str, str]) -> None:
        table = {**self._table, namespace: keys}
        self._file.save(_Content(table))
        self._table = table
