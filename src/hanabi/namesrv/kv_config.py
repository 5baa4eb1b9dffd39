"""Key-value configuration: namespace -> key -> value, kept in a file of Apache's format.

    {"configTable":{"ORDER_TOPIC_CONFIG":{"Orders":"broker-a:4"}}}

A change is on disk before it is in force, so what was acknowledged survives a crash. Writing blocks for the disk, so
the handlers do it in a thread; the table is replaced whole, and may be read meanwhile. Any peer may ask for a change,
so the table has a limit.
"""

import logging
from pathlib import Path

import msgspec

from hanabi.durable_table import DurableTable
from hanabi.errors import NoPermission

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"  # the namespace in which a topic's key says on which brokers it is ordered

NAME_CHARACTERS_MAX = 512  # of a namespace or a key, which is a topic's name where brokers use it
VALUE_BYTES_MAX = (
    512 * 1024
)  # it travels in a header, there and back; the order of a topic on 10,000 brokers has 200 KB
TABLE_BYTES_MAX = 8 * 1024 * 1024  # a namespace is sent whole, in one frame of 16 MiB; and a change writes it whole

logger = logging.getLogger(__name__)
Table = dict[str, dict[str, str]]


class _Content(msgspec.Struct):
    config_table: Table = msgspec.field(name="configTable")


class KVConfig:
    """The table and its file. Invariant: the table is what the file says. One thread at a time may change it."""

    def __init__(self, path: Path) -> None:
        self._file = DurableTable(path, encode=msgspec.json.encode, decode=msgspec.json.Decoder(_Content).decode)
        self._file.check_writable()
        content = self._file.load()
        self._table: Table = content.config_table if content else {}

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """Return all keys and values of *namespace*; None when nothing was ever put there."""
        return self._table.get(namespace)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Keep *value*, unless it is too much: NoPermission says by what."""
        if max(len(namespace), len(key)) > NAME_CHARACTERS_MAX:
            raise NoPermission(f"the namespace or the key has more than {NAME_CHARACTERS_MAX} characters")
        if len(value.encode()) > VALUE_BYTES_MAX:
            raise NoPermission(f"the value has more than {VALUE_BYTES_MAX} bytes")
        table = self._with(namespace, {**self._table.get(namespace, {}), key: value})
        if len(msgspec.json.encode(_Content(table))) > TABLE_BYTES_MAX:
            raise NoPermission(f"there is no room for {key}: all values together have {TABLE_BYTES_MAX} bytes")
        self._keep(table)
        logger.info("KV config %s/%s has changed", namespace, key)  # not to what: it may be long, and a secret

    def delete(self, namespace: str, key: str) -> None:
        """Forget *key*. The namespace stays, also when nothing is left in it, as with Apache's KVConfigManager."""
        keys = self._table.get(namespace)
        if keys is None or key not in keys:
            return
        self._keep(self._with(namespace, {name: value for name, value in keys.items() if name != key}))
        logger.info("KV config %s/%s is deleted", namespace, key)

    def _with(self, namespace: str, keys: dict[str, str]) -> Table:
        return {**self._table, namespace: keys}

    def _keep(self, table: Table) -> None:
        self._file.save(_Content(table))
        self._table = table
