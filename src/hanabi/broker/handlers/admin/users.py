"""Users of ACL 2.0 over the wire: create (3001), update (3002), delete (3003), get (3004), list (3005).

Codes and sentences are those of AdminBrokerProcessor (5.3.3). Passwords are shown to Super users only. Only with
`authenticationEnabled=true`: other brokers answer code 3.
"""

import logging
from collections.abc import Callable

import msgspec

from hanabi.access.policies.directory import Directory, UserChange
from hanabi.access.policies.model import User, UserStatus, UserType
from hanabi.access.policies.wording import word
from hanabi.broker.handlers.admin.support.limits import NO_BODY_BYTES_MAX, ONE_BYTES_MAX
from hanabi.errors import InvalidParameter, NoPermission, UnknownReplyError
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.remoting.started_threads import in_own_thread
from hanabi.wire.bodies.acl import UserInfo
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.headers.acl import ListUsersHeader, UserHeader

logger = logging.getLogger(__name__)

# Verifies the signature of a request, or the names of its certificate; raises NoPermission.
Caller = Callable[[Command, tuple[str, ...]], User]


def user_handlers(directory: Directory, caller: Caller) -> dict[int, Handler]:
    """Return the handlers by request code. *caller* returns the user who signed a request."""
    handlers = UserHandlers(directory, caller)
    return {
        RequestCode.AUTH_CREATE_USER: Handler(UserHeader, handlers.create, ONE_BYTES_MAX),
        RequestCode.AUTH_UPDATE_USER: Handler(UserHeader, handlers.update, ONE_BYTES_MAX),
        RequestCode.AUTH_DELETE_USER: Handler(UserHeader, handlers.delete, NO_BODY_BYTES_MAX),
        RequestCode.AUTH_GET_USER: Handler(UserHeader, handlers.get, NO_BODY_BYTES_MAX),
        RequestCode.AUTH_LIST_USER: Handler(ListUsersHeader, handlers.list, NO_BODY_BYTES_MAX),
    }


class UserHandlers:
    """Handlers of users. Changes are made in a thread."""

    def __init__(self, directory: Directory, caller: Caller) -> None:
        self._directory, self._caller = directory, caller

    async def create(self, header: UserHeader, request: Command, connection: Connection) -> Reply:
        username, info = _named(header), decode_body(request.body, UserInfo)
        user = User(
            username=username,
            password=info.password or "",
            user_type=word(UserType, info.user_type) or UserType.NORMAL,
            user_status=word(UserStatus, info.user_status) or UserStatus.ENABLE,
        )
        if user.user_type is UserType.SUPER and not self._is_super(request, connection):
            raise UnknownReplyError("The super user can only be create by super user")
        await in_own_thread(self._directory.create_user, user)
        logger.info("%s: user %s is created", connection.peer, username)
        return Reply()

    async def update(self, header: UserHeader, request: Command, connection: Connection) -> Reply:
        username, info = _named(header), decode_body(request.body, UserInfo)
        change = UserChange(
            password=info.password,
            user_type=word(UserType, info.user_type),
            user_status=word(UserStatus, info.user_status),
            keeps_previous=info.keep_previous,
        )
        if change.user_type is UserType.SUPER and not self._is_super(request, connection):
            raise UnknownReplyError("The super user can only be update by super user")
        self._refuse_change_of_super(username, request, connection)
        await in_own_thread(self._directory.update_user, username, change)
        logger.info("%s: user %s is changed", connection.peer, username)
        return Reply()

    async def delete(self, header: UserHeader, request: Command, connection: Connection) -> Reply:
        username = _named(header)
        self._refuse_change_of_super(username, request, connection)
        await in_own_thread(self._directory.delete_user, username)
        logger.info("%s: user %s is deleted", connection.peer, username)
        return Reply()

    def get(self, header: UserHeader, request: Command, connection: Connection) -> Reply:
        user, is_super = self._directory.users.get(_named(header)), self._is_super(request, connection)
        return Reply() if user is None else Reply(body=encode_body(_shown(user, is_super)))

    def list(self, header: ListUsersHeader, request: Command, connection: Connection) -> Reply:
        part, is_super = header.filter or "", self._is_super(request, connection)
        found = [_shown(user, is_super) for name, user in sorted(self._directory.users.items()) if part in name]
        return Reply(body=msgspec.json.encode(found)) if found else Reply()

    def _is_super(self, request: Command, connection: Connection) -> bool:
        return self._caller(request, connection.certificate_names).user_type is UserType.SUPER

    def _refuse_change_of_super(self, username: str, request: Command, connection: Connection) -> None:
        user = self._directory.users.get(username)
        if user is not None and user.user_type is UserType.SUPER and not self._is_super(request, connection):
            raise NoPermission("The super user can only be update by super user")


def _named(header: UserHeader) -> str:
    if not header.username or not header.username.strip():
        raise InvalidParameter("The username is blank")
    return header.username


def _shown(user: User, with_password: bool) -> UserInfo:
    return UserInfo(
        username=user.username,
        password=user.password if with_password else None,
        user_type=user.user_type.value,
        user_status=user.user_status.value,
    )
