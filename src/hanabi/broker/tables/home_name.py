"""Last broker name of a home directory, kept in its `config/brokerName`.

Clients key queues and offsets by the broker's name: a home served under another name is another broker to them. A start
without a configured name uses the remembered one; a start under another name logs a warning.
"""

import logging
from pathlib import Path

from hanabi.durable_table import DurableTable
from hanabi.errors import StoreDamaged

logger = logging.getLogger(__name__)

_FILE = Path("config") / "brokerName"


def remembered_name(home: Path) -> str | None:
    """Return the name that *home* was last served under; None if unknown. Writes nothing."""
    try:
        return _table(home).load() or None
    except StoreDamaged as error:
        logger.warning("the name under which %s was served before is not known: %s", home, error)
        return None


def remember_name(home: Path, name: str) -> None:
    """Store *name*; warn if *home* had another one."""
    before = remembered_name(home)
    if before == name:
        return
    if before is not None:
        logger.warning(
            "home %s was served as broker %s before and is served as %s now: to clients its queues are those of "
            "another broker. If that is not intended, set brokerName=%s",
            *(home, before, name, before),
        )
    _table(home).save(name)


def _table(home: Path) -> DurableTable[str]:
    return DurableTable(home / _FILE, encode=lambda name: f"{name}\n".encode(), decode=lambda raw: raw.decode().strip())
