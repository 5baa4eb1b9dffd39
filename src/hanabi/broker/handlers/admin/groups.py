"""Consumer groups: create, change, delete and show their settings.

    200  create or change one    225  many at once (5.x)      207  delete one, with its offsets if asked to
    201  all of them             352  one of them (5.x)

Agrees with AdminBrokerProcessor (4.9.8; 5.3.3 where marked). A name that clients cannot use is refused, as 5.x does.
"""

import logging

from hanabi.broker.clients.consumers import Consumers
from hanabi.broker.clients.queue_locks import QueueLocks
from hanabi.broker.handlers.admin.support.limits import LIST_BYTES_MAX, NO_BODY_BYTES_MAX, ONE_BYTES_MAX
from hanabi.broker.handlers.admin.support.offset_removal import forget_group
from hanabi.broker.handlers.admin.support.slave import refuse_on_slave
from hanabi.broker.handlers.admin.support.uncancelled import uncancelled
from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.broker.settings import Settings
from hanabi.broker.stats.broker_stats import BrokerStats
from hanabi.broker.tables.groups import Groups
from hanabi.broker.tables.topics import is_legal_name
from hanabi.errors import InvalidParameter
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupList, with_fields_of_5
from hanabi.wire.bodies.of_5 import groups_of_5
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import V5_0_0, Command
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.header import NoHeader
from hanabi.wire.headers.group import DeleteSubscriptionGroupHeader, GetSubscriptionGroupConfigHeader
from hanabi.wire.system_names import GROUP_CHARACTERS_MAX

logger = logging.getLogger(__name__)


def group_handlers(
    groups: Groups,
    settings: Settings,
    offsets: ConsumerOffsets,
    stats: BrokerStats,
    consumers: Consumers,
    locks: QueueLocks,
) -> dict[int, Handler]:
    """Return the handlers that change and show groups."""
    handlers = GroupHandlers(groups, settings, offsets, stats, consumers, locks)
    return {
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Handler(NoHeader, handlers.update, ONE_BYTES_MAX),
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: Handler(NoHeader, handlers.update_many, LIST_BYTES_MAX),
        RequestCode.DELETE_SUBSCRIPTIONGROUP: Handler(
            DeleteSubscriptionGroupHeader, handlers.delete, NO_BODY_BYTES_MAX
        ),
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Handler(NoHeader, handlers.all, NO_BODY_BYTES_MAX),
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: Handler(
            GetSubscriptionGroupConfigHeader, handlers.one, NO_BODY_BYTES_MAX
        ),
    }


class GroupHandlers:
    """Handlers of group settings."""

    def __init__(
        self,
        groups: Groups,
        settings: Settings,
        offsets: ConsumerOffsets,
        stats: BrokerStats,
        consumers: Consumers,
        locks: QueueLocks,
    ) -> None:
        self._groups, self._settings, self._offsets, self._stats = groups, settings, offsets, stats
        self._consumers, self._locks = consumers, locks

    async def update(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        refuse_on_slave(self._settings)
        group = decode_body(request.body, SubscriptionGroupConfig)
        check_group_name(group.group_name)
        await self._groups.update(group)
        logger.info("%s: group %s is created or changed", connection.peer, group.group_name)
        return Reply()

    async def update_many(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        refuse_on_slave(self._settings)
        groups = decode_body(request.body, SubscriptionGroupList).group_config_list
        for group in groups:  # all are checked before the first is created
            check_group_name(group.group_name)
        await self._groups.update(*groups)
        logger.info("%s: %d groups are created or changed", connection.peer, len(groups))
        return Reply()

    async def delete(self, header: DeleteSubscriptionGroupHeader, _: Command, connection: Connection) -> Reply:
        refuse_on_slave(self._settings)
        await uncancelled(self._delete(header))
        logger.info(
            "%s: group %s is deleted, its offsets %s",
            connection.peer,
            header.group_name,
            "too" if header.forget_offsets else "stay",
        )
        return Reply()

    async def _delete(self, header: DeleteSubscriptionGroupHeader) -> None:
        await self._groups.delete(header.group_name)
        if header.forget_offsets:
            await forget_group(self._offsets, header.group_name)
        self._stats.remove_group(header.group_name)
        if self._consumers.find_group(header.group_name) is None:  # else members still rely on their locks
            self._locks.remove_group(header.group_name)

    def all(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        table = self._groups.table()
        return Reply(body=encode_body(groups_of_5(table) if request.version >= V5_0_0 else table))

    def one(self, header: GetSubscriptionGroupConfigHeader, _: Command, connection: Connection) -> Reply:
        group = self._groups.known(header.group)
        if group is None:
            return Reply(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"No group in this broker. group: {header.group}")
        return Reply(body=encode_body(with_fields_of_5(group)))  # only 5.x asks


def check_group_name(name: str) -> None:
    """Refuse an invalid group name."""
    if not name:
        raise InvalidParameter("The specified group is blank.")
    if len(name) > GROUP_CHARACTERS_MAX:
        raise InvalidParameter(f"The specified group is longer than group max length: {GROUP_CHARACTERS_MAX}.")
    if not is_legal_name(name):
        raise InvalidParameter(
            f"The specified group[{name[:50]}] contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
        )
