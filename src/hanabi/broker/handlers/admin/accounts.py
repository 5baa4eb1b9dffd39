"""Accounts of ACL 1.0 over the wire: change one (50), delete one (51), versions (52), the global white list (53).

Only with `aclEnable=true`. Codes and sentences are those of AdminBrokerProcessor (4.9.8), which lets each account
change accounts; here an administrator must ask. A white list is replaced only in a file that is loaded. No secret is in
a reply or a log line.
"""

import logging
from typing import NamedTuple

import msgspec

from hanabi.access.plain.changes import split_list
from hanabi.access.plain.files import PlainFiles
from hanabi.broker.handlers.admin.support.limits import NO_BODY_BYTES_MAX
from hanabi.errors import ConfigError
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.remoting.started_threads import in_own_thread
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.header import NoHeader
from hanabi.wire.headers.acl import (
    CreateAccessConfigHeader,
    DeleteAccessConfigHeader,
    GetBrokerAclInfoReplyHeader,
    UpdateGlobalWhiteAddrsHeader,
)
from hanabi.wire.settings_text import shortened

logger = logging.getLogger(__name__)


class BrokerIdentity(NamedTuple):
    """The broker as it names itself in replies."""

    cluster_name: str
    broker_name: str
    address: str


def account_handlers(files: PlainFiles, identity: BrokerIdentity) -> dict[int, Handler]:
    """Return the handlers by request code."""
    handlers = AccountHandlers(files, identity)
    return {
        RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: Handler(CreateAccessConfigHeader, handlers.update, NO_BODY_BYTES_MAX),
        RequestCode.DELETE_ACL_CONFIG: Handler(DeleteAccessConfigHeader, handlers.delete, NO_BODY_BYTES_MAX),
        RequestCode.GET_BROKER_CLUSTER_ACL_INFO: Handler(NoHeader, handlers.versions, NO_BODY_BYTES_MAX),
        RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: Handler(
            UpdateGlobalWhiteAddrsHeader, handlers.update_white_list, NO_BODY_BYTES_MAX
        ),
    }


class AccountHandlers:
    """Handlers that change the files of ACL 1.0, each in a thread."""

    def __init__(self, files: PlainFiles, identity: BrokerIdentity) -> None:
        self._files, self._identity = files, identity

    async def update(self, header: CreateAccessConfigHeader, _: Command, connection: Connection) -> Reply:
        try:
            await in_own_thread(self._files.update_account, header)
        except ConfigError as error:
            return Reply(ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED, str(error))
        logger.info("%s: account %s is created or changed", connection.peer, header.access_key)
        return Reply()

    async def delete(self, header: DeleteAccessConfigHeader, _: Command, connection: Connection) -> Reply:
        failed = f"The accesskey[{shortened(header.access_key)}] corresponding to accessConfig has been deleted failed."
        try:
            is_deleted = await in_own_thread(self._files.delete_account, header.access_key)
        except ConfigError as error:
            return Reply(ResponseCode.DELETE_ACL_CONFIG_FAILED, str(error))
        if not is_deleted:
            return Reply(ResponseCode.DELETE_ACL_CONFIG_FAILED, failed)
        logger.info("%s: account %s is deleted", connection.peer, header.access_key)
        return Reply()

    async def update_white_list(
        self, header: UpdateGlobalWhiteAddrsHeader, _: Command, connection: Connection
    ) -> Reply:
        failed = f"The globalWhiteAddresses[{shortened(header.global_white_addrs)}] has been updated failed."
        addresses, path = split_list(header.global_white_addrs) or [], header.acl_file_full_path
        try:
            is_updated = await in_own_thread(self._files.update_white_list, addresses, path)
        except ConfigError as error:
            return Reply(ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED, str(error))
        if not is_updated:
            return Reply(ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED, failed)
        logger.info("%s: the global white list is now %s", connection.peer, ", ".join(addresses) or "empty")
        return Reply()

    def versions(self, _: NoHeader, __: Command, ___: Connection) -> Reply:
        return Reply(
            header=GetBrokerAclInfoReplyHeader(
                version=msgspec.json.encode(self._files.version()).decode(),
                all_acl_file_version=msgspec.json.encode(self._files.versions()).decode(),
                broker_name=self._identity.broker_name,
                broker_addr=self._identity.address,
                cluster_name=self._identity.cluster_name,
            )
        )
