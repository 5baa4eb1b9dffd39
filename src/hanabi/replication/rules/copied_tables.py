"""Decisions about the tables that a slave copies from its master. Pure."""

from collections.abc import Mapping
from typing import TypeVar

from hanabi.wire.bodies.topics import DataVersion

Offsets = Mapping[str, Mapping[int, int]]  # "topic@group" -> queue id -> offset
T = TypeVar("T")


def copied_members(
    local: Mapping[str, T], local_version: DataVersion, master: Mapping[str, T], master_version: DataVersion
) -> dict[str, T]:
    """Return the members of a slave's table after a copy of its master's.

    Members that the master does not have are gone, with one exception: if the master's version is older than the
    copy, its file was lost or is of another time, and nothing is removed here because of that.
    """
    is_older = (master_version.state_version, master_version.counter) < (
        local_version.state_version,
        local_version.counter,
    )
    return {**local, **master} if is_older else dict(master)


def merged_offsets(local: Offsets, master: Offsets, seen: Offsets) -> Offsets:
    """Return the offsets of *master* that a slave must take; *seen* is the master's previous table.

    The master wins for an offset that it has changed, also backwards (a reset). Otherwise a larger offset that was
    committed here stays.
    """
    taken: dict[str, dict[int, int]] = {}
    for key, queues in master.items():
        here, before = local.get(key, {}), seen.get(key, {})
        changed = {
            queue_id: offset
            for queue_id, offset in queues.items()
            if here.get(queue_id) != offset and (before.get(queue_id, -1) != offset or here.get(queue_id, -1) < offset)
        }
        if changed:
            taken[key] = changed
    return taken


def version_of_copy(masters: DataVersion | None, *, is_ahead: bool, now_ms: int) -> DataVersion:
    """Return the version of a slave's table: its master's, or a newer one if the slave got ahead of it.

    A returning master of Apache's takes the slave's table only if it is not older than its own."""
    if masters is None:
        return DataVersion(timestamp=now_ms)
    if not is_ahead:
        return masters
    return DataVersion(state_version=masters.state_version, counter=masters.counter + 1, timestamp=now_ms)


def is_ahead(local: Offsets, masters: Offsets) -> bool:
    """Return whether a group has consumed more here than its master knew."""
    return any(
        offset > masters.get(key, {}).get(queue_id, -1)
        for key, queues in local.items()
        for queue_id, offset in queues.items()
    )
