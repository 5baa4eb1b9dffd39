"""Consumer groups of this broker: their settings, and the rule for creating one.

`config/subscriptionGroup.json` is as Apache writes it. Online members are not known here.

Agrees with SubscriptionGroupManager (4.9.8); names are checked as 5.x does, since any peer can create a group.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from hanabi.broker.settings import Settings
from hanabi.broker.tables.topics import LOGGED_MAX, is_legal_name
from hanabi.broker.tables.versioned_table import Content, Done, VersionedTable
from hanabi.errors import NoPermission
from hanabi.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupTable
from hanabi.wire.bodies.topics import DataVersion
from hanabi.wire.fastjson import decode_file
from hanabi.wire.system_names import GROUP_CHARACTERS_MAX, SYSTEM_GROUP_PREFIX, TOOLS_GROUP

GROUPS_AT_START: Final = (
    TOOLS_GROUP,
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
)

logger = logging.getLogger(__name__)


class Groups:
    """The table and the rule for creating a group."""

    def __init__(self, path: Path | None, settings: Settings, now_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._table = VersionedTable(path, "subscriptionGroupTable", _decode, now_ms)
        for name in GROUPS_AT_START:
            self._table.members.setdefault(name, SubscriptionGroupConfig(group_name=name))
        self.known: Callable[[str], SubscriptionGroupConfig | None] = self._table.members.get  # never creates one

    @property
    def data_version(self) -> DataVersion:
        return self._table.version

    def __len__(self) -> int:
        return len(self._table.members)

    def names(self) -> list[str]:
        return list(self._table.members)

    def find(self, group: str) -> SubscriptionGroupConfig | None:
        """Return the group, created if it is missing and the rules allow it.

        A slave's groups are its master's: it serves a missing one with the default settings, and does not create it.
        """
        known = self.known(group)
        return known if known is not None else self._create(group)

    def _create(self, group: str) -> SubscriptionGroupConfig | None:
        if not self._settings.broker.auto_create_group and not group.startswith(SYSTEM_GROUP_PREFIX):
            return None
        if not group or len(group) > GROUP_CHARACTERS_MAX or not is_legal_name(group):
            return None
        made = SubscriptionGroupConfig(group_name=group)
        if self._settings.is_slave:
            return made
        if self._is_full:
            logger.warning("group %s is not created, there are groupsMax = %d", group, len(self))
            return None
        self._table.put({group: made})
        logger.info("new group %s", group)
        return made

    @property
    def _is_full(self) -> bool:
        return self._table.count >= self._settings.broker.groups_max

    def update(self, *groups: SubscriptionGroupConfig) -> Awaitable[None]:
        """Create or change groups for an administrator: all or none. In force when awaited."""
        old = {group.group_name: self._table.newest(group.group_name) for group in groups}
        new = [name for name, known in old.items() if known is None]
        if new and self._table.count + len(new) > self._settings.broker.groups_max:
            known = f"there are {self._table.count} of groupsMax = {self._settings.broker.groups_max} groups"
            raise NoPermission(f"group {new[0]} is not created: {known}")
        changed = {group.group_name: group for group in groups}
        return self._table.change(changed, then=partial(_log_update, groups, old))

    def delete(self, group: str) -> Awaitable[None]:
        """Delete a group; a missing one is no error, as the tools delete on every broker. Await it."""
        if self._table.newest(group) is None:
            logger.warning("group %s cannot be deleted, it is not there", group)
            return Done()
        return self._table.change({}, gone=[group], then=lambda: logger.info("group %s is deleted", group))

    def adopt(self, table: SubscriptionGroupTable, groups: Mapping[str, SubscriptionGroupConfig]) -> None:
        """Replace all groups of a slave by *groups*, a copy of its master's *table*."""
        gone = self._table.members.keys() - groups.keys()
        self._table.adopt(Content(table.data_version, groups, {"forbiddenTable": table.forbidden_table}))
        logger.info("%d groups are copied from the master, %d are gone", len(groups), len(gone))

    def disable_consume(self, group: str) -> None:
        """Disable reading for this group, until an administrator enables it again."""
        old = self.known(group)
        if old is not None and old.consume_enable:
            self._table.put({group: msgspec.structs.replace(old, consume_enable=False)})

    def table(self) -> SubscriptionGroupTable:
        """Return all groups, with the version of their table."""
        return SubscriptionGroupTable(
            data_version=self._table.version, subscription_group_table=dict(self._table.members)
        )

    def save(self) -> None:
        """Write the table to disk now. Blocks."""
        self._table.save()

    def save_changes(self) -> None:
        """Write unsaved changes to disk now. Blocks."""
        self._table.save_changes()

    async def keep_saving(self) -> None:
        """Write new groups of clients in a thread, until cancelled."""
        await self._table.keep_saving()


def _log_update(groups: Collection[SubscriptionGroupConfig], old: Mapping[str, SubscriptionGroupConfig | None]) -> None:
    if len(groups) > LOGGED_MAX:
        logger.info("%d groups are created or changed", len(groups))
        return
    for group in groups:
        logger.info("group %s, before: %s", group, old[group.group_name])


def _decode(raw: bytes) -> Content[SubscriptionGroupConfig]:
    table = decode_file(raw, SubscriptionGroupTable)
    return Content(table.data_version, table.subscription_group_table, {"forbiddenTable": table.forbidden_table})
