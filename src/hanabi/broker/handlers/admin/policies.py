"""Policies of ACL 2.0 over the wire: create (3006), update (3007), delete (3008), get (3009), list (3010).

Codes and sentences are those of AdminBrokerProcessor (5.3.3): create and update both merge. Only with
`authenticationEnabled=true`: other brokers answer code 3.
"""

import logging
from functools import reduce

import msgspec

from hanabi.access.policies.directory import Directory
from hanabi.access.policies.model import Acl, PolicyType
from hanabi.access.policies.wording import acl_info, merged, read_acl, read_resource, subject_of, username_of, word
from hanabi.broker.handlers.admin.support.limits import NO_BODY_BYTES_MAX, ONE_BYTES_MAX
from hanabi.errors import NoPermission
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.remoting.started_threads import in_own_thread
from hanabi.wire.bodies.acl import AclInfo
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.headers.acl import AclHeader, DeleteAclHeader, ListAclsHeader

logger = logging.getLogger(__name__)


def policy_handlers(directory: Directory) -> dict[int, Handler]:
    """Return the handlers by request code."""
    handlers = PolicyHandlers(directory)
    return {
        RequestCode.AUTH_CREATE_ACL: Handler(AclHeader, handlers.merge, ONE_BYTES_MAX),
        RequestCode.AUTH_UPDATE_ACL: Handler(AclHeader, handlers.merge, ONE_BYTES_MAX),
        RequestCode.AUTH_DELETE_ACL: Handler(DeleteAclHeader, handlers.delete, NO_BODY_BYTES_MAX),
        RequestCode.AUTH_GET_ACL: Handler(AclHeader, handlers.get, NO_BODY_BYTES_MAX),
        RequestCode.AUTH_LIST_ACL: Handler(ListAclsHeader, handlers.list, NO_BODY_BYTES_MAX),
    }


class PolicyHandlers:
    """Handlers of policies. Changes are made in a thread."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    async def merge(self, header: AclHeader, request: Command, connection: Connection) -> Reply:
        info = decode_body(request.body, AclInfo) if request.body else AclInfo()
        if not info.policies:
            raise NoPermission("The body of acl is null")
        username, asked = username_of(info.subject or header.subject), read_acl(info)
        await in_own_thread(self._directory.merge_acl, username, lambda old: _joined(old, asked))
        logger.info("%s: policies of user %s are changed", connection.peer, username)
        return Reply()

    async def delete(self, header: DeleteAclHeader, _: Command, connection: Connection) -> Reply:
        username = username_of(header.subject)
        resource = read_resource(header.resource) if header.resource else None
        kind = word(PolicyType, header.policy_type) or PolicyType.CUSTOM
        await in_own_thread(self._directory.delete_acl, username, kind, resource)
        logger.info("%s: policies of user %s are deleted: %s", connection.peer, username, resource or "all")
        return Reply()

    def get(self, header: AclHeader, _: Command, __: Connection) -> Reply:
        username = username_of(header.subject)
        if username not in self._directory.users:
            raise NoPermission("The subject is not exist.")
        acl = self._directory.acls.get(username)
        return Reply() if acl is None else Reply(body=encode_body(acl_info(username, acl)))

    def list(self, header: ListAclsHeader, _: Command, __: Connection) -> Reply:
        """Return policies whose subject has one text and whose resources have the other."""
        part, of_resource = header.subject_filter or "", header.resource_filter or ""
        found = [
            acl_info(username, shown)
            for username, acl in sorted(self._directory.acls.items())
            if part in subject_of(username) and (shown := _about(acl, username, of_resource)) != Acl()
        ]
        return Reply(body=msgspec.json.encode(found)) if found else Reply()


def _joined(old: Acl, asked: Acl) -> Acl:
    by_type = ((PolicyType.CUSTOM, asked.custom), (PolicyType.DEFAULT, asked.default))
    return reduce(lambda acl, each: merged(acl, each[0], each[1]), by_type, old)


def _about(acl: Acl, username: str, part: str) -> Acl:
    """Return the entries whose resource has *part*; all of them if the subject has it, as with Apache."""
    if not part or part in subject_of(username):
        return acl
    custom, default = (
        tuple(entry for entry in entries if part in str(entry.resource)) for entries in (acl.custom, acl.default)
    )
    return Acl(custom, default)
