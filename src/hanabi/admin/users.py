"""Users and policies of brokers with access control of 5.x, and accounts of those of 4.9; Hanabi's and Apache's.

Agrees with mqadmin: changes go to masters and slaves, queries to the first master. No answer has a secret.
"""

from collections.abc import Sequence
from typing import Final

from hanabi.access.address import source_address
from hanabi.access.needs import Need
from hanabi.access.policies.decision import deciding_entry, refusal
from hanabi.access.policies.model import Acl, Entry, PolicyType, User, UserStatus, UserType
from hanabi.access.policies.wording import action_words, read_acl, word
from hanabi.admin.access import EVERYWHERE, Access, BrokerAt, Where, each
from hanabi.admin.answer import Answer
from hanabi.errors import BrokerError, ConfigError, RequestCodeNotSupported
from hanabi.wire.bodies.acl import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.header import Header
from hanabi.wire.headers.acl import (
    AclHeader,
    CreateAccessConfigHeader,
    DeleteAccessConfigHeader,
    DeleteAclHeader,
    ListAclsHeader,
    ListUsersHeader,
    UserHeader,
)

ACCOUNT_CODES: Final = frozenset({RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, RequestCode.DELETE_ACL_CONFIG})


class UserSummary(Answer, frozen=True, kw_only=True):
    """One user of a broker."""

    user: str
    type: str | None
    status: str | None


class PolicyLine(Answer, frozen=True, kw_only=True):
    """One entry of a user's policies."""

    user: str
    policy: str
    resource: str
    actions: list[str]
    sources: list[str]
    decision: str


class Explanation(Answer, frozen=True, kw_only=True):
    """A verdict, and the entry that decides; None if no entry does."""

    user: str
    resource: str
    actions: list[str]
    allowed: bool
    reason: str
    rule: PolicyLine | None


class Users:
    """Users, policies and accounts."""

    def __init__(self, access: Access) -> None:
        self._access = access

    # Users

    async def find(self, part: str = "", where: Where = EVERYWHERE) -> list[UserSummary]:
        """Return the users whose names have *part*."""
        body = await self._read(where, RequestCode.AUTH_LIST_USER, ListUsersHeader(filter=part or None))
        return [_summary(info) for info in (decode_body(body, list[UserInfo]) if body else [])]

    async def show(self, username: str, where: Where = EVERYWHERE) -> UserSummary:
        """Return one user; raise BrokerError if there is none."""
        return _summary(await self._user(await self._first(where), username))

    async def create(self, username: str, change: UserInfo, where: Where = EVERYWHERE) -> list[str]:
        """Create a user; return the names of the brokers."""
        return await self._change(where, RequestCode.AUTH_CREATE_USER, UserHeader(username=username), change)

    async def update(self, username: str, change: UserInfo, where: Where = EVERYWHERE) -> list[str]:
        """Change what *change* has of a user."""
        return await self._change(where, RequestCode.AUTH_UPDATE_USER, UserHeader(username=username), change)

    async def delete(self, username: str, where: Where = EVERYWHERE) -> list[str]:
        """Delete a user and its policies."""
        return await self._change(where, RequestCode.AUTH_DELETE_USER, UserHeader(username=username))

    async def copy(self, source: str, target: str, usernames: Sequence[str]) -> list[str]:
        """Copy users with their passwords from one broker to another, all if none are named; return their names."""
        here, there = await self._first(Where(broker=source)), await self._first(Where(broker=target))
        if usernames:
            infos = [await self._user(here, name) for name in usernames]
        else:
            body = (await self._ask(here, RequestCode.AUTH_LIST_USER, ListUsersHeader())).body
            infos = decode_body(body, list[UserInfo]) if body else []
        for info in infos:
            if not info.password:
                raise BrokerError(f"{here.broker} shows no password of user {info.username}: sign as a Super user")
            header = UserHeader(username=info.username)
            known = (await self._ask(there, RequestCode.AUTH_GET_USER, header)).body
            code = RequestCode.AUTH_UPDATE_USER if known else RequestCode.AUTH_CREATE_USER
            await self._ask(there, code, header, encode_body(info))
        return [info.username or "" for info in infos]

    # Policies

    async def policies(
        self, user_part: str = "", resource_part: str = "", where: Where = EVERYWHERE
    ) -> list[PolicyLine]:
        """Return the entries of users whose subject has *user_part*, about resources that have *resource_part*."""
        header = ListAclsHeader(subject_filter=user_part or None, resource_filter=resource_part or None)
        body = await self._read(where, RequestCode.AUTH_LIST_ACL, header)
        return [line for info in (decode_body(body, list[AclInfo]) if body else []) for line in _lines(info)]

    async def policies_of(self, username: str, where: Where = EVERYWHERE) -> list[PolicyLine]:
        """Return the entries of one user."""
        return _lines(await self._acl(await self._first(where), username))

    async def grant(
        self,
        username: str,
        entries: Sequence[PolicyEntryInfo],
        where: Where = EVERYWHERE,
        kind: PolicyType = PolicyType.CUSTOM,
    ) -> list[str]:
        """Add entries, each in place of the one for the same resource."""
        policy = PolicyInfo(policy_type=kind.value, entries=list(entries))
        info = AclInfo(subject=_subject(username), policies=[policy])
        read_acl(info)  # says what is wrong, in one sentence and before any broker changed
        return await self._change(where, RequestCode.AUTH_UPDATE_ACL, AclHeader(subject=info.subject), info)

    async def revoke(
        self,
        username: str,
        resource: str | None,
        where: Where = EVERYWHERE,
        kind: PolicyType = PolicyType.CUSTOM,
    ) -> list[str]:
        """Delete the entry for *resource*; all policies without one."""
        header = DeleteAclHeader(subject=_subject(username), policy_type=kind.value, resource=resource)
        return await self._change(where, RequestCode.AUTH_DELETE_ACL, header)

    async def copy_policies(self, source: str, target: str, usernames: Sequence[str]) -> list[str]:
        """Copy policies from one broker to another, of all users if none are named; return the names."""
        here, there = await self._first(Where(broker=source)), await self._first(Where(broker=target))
        if usernames:
            infos = [await self._acl(here, name) for name in usernames]
        else:
            body = (await self._ask(here, RequestCode.AUTH_LIST_ACL, ListAclsHeader())).body
            infos = decode_body(body, list[AclInfo]) if body else []
        infos = [info for info in infos if info.policies]
        for info in infos:
            await self._ask(there, RequestCode.AUTH_UPDATE_ACL, AclHeader(subject=info.subject), encode_body(info))
        return [_user_of(info) for info in infos]

    async def explain(self, username: str, need: Need, source: str = "", where: Where = EVERYWHERE) -> Explanation:
        """Return whether a user has one of the needed actions from the address *source*, and why."""
        broker = await self._first(where)
        found, info = await self._user(broker, username), await self._acl(broker, username)
        return explained(_user(found), read_acl(info) if info.policies else Acl(), need, source)

    # Accounts of 4.9

    async def update_account(self, account: CreateAccessConfigHeader, where: Where = EVERYWHERE) -> list[str]:
        """Create or change an account of brokers with `aclEnable`."""
        return await self._change(where, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, account)

    async def delete_account(self, access_key: str, where: Where = EVERYWHERE) -> list[str]:
        """Delete an account of brokers with `aclEnable`."""
        header = DeleteAccessConfigHeader(access_key=access_key)
        return await self._change(where, RequestCode.DELETE_ACL_CONFIG, header)

    # Requests

    async def _first(self, where: Where) -> BrokerAt:
        return (await self._access.masters(where))[0]

    async def _ask(self, broker: BrokerAt, code: RequestCode, header: Header, body: bytes = b"") -> Command:
        """Ask one broker; a broker without access control is named, with the setting that turns it on."""
        try:
            return await self._access.ask(broker, code, header, body)
        except RequestCodeNotSupported as error:
            raise RequestCodeNotSupported(_off(broker, code)) from error

    async def _read(self, where: Where, code: RequestCode, header: Header) -> bytes:
        return (await self._ask(await self._first(where), code, header)).body

    async def _change(
        self, where: Where, code: RequestCode, header: Header, body: UserInfo | AclInfo | None = None
    ) -> list[str]:
        await self._access.masters_of_one_cluster(where)  # not into all clusters by accident
        brokers = await self._access.brokers(where)
        data = encode_body(body) if body is not None else b""

        async def tell(broker: BrokerAt) -> None:
            await self._ask(broker, code, header, data)

        await each(brokers, tell)
        return sorted({broker.broker for broker in brokers})

    async def _user(self, broker: BrokerAt, username: str) -> UserInfo:
        reply = await self._ask(broker, RequestCode.AUTH_GET_USER, UserHeader(username=username))
        if not reply.body:
            raise BrokerError(f"{broker.broker} has no user {username}")
        return decode_body(reply.body, UserInfo)

    async def _acl(self, broker: BrokerAt, username: str) -> AclInfo:
        subject = _subject(username)
        reply = await self._ask(broker, RequestCode.AUTH_GET_ACL, AclHeader(subject=subject))
        return decode_body(reply.body, AclInfo) if reply.body else AclInfo(subject=subject)


def _off(broker: BrokerAt, code: RequestCode) -> str:
    """Return the sentence about a broker that does not know a request of access control. Pure."""
    if code in ACCOUNT_CODES:
        what, setting = "accounts", "aclEnable=true"
    else:
        what, setting = "users and policies", "authenticationEnabled=true and authorizationEnabled=true"
    return f"{broker.broker} ({broker.address}) has no {what}: set {setting} in its broker.conf, and restart it"


def explained(user: User, acl: Acl, need: Need, source: str) -> Explanation:
    """Return the verdict on *need* with the deciding entry. Pure."""
    address = source_address(source) if source else None
    if source and address is None:
        raise ConfigError(f"{source} is no IP address")
    if user.user_status is UserStatus.DISABLE:
        reason: str | None = f"User:{user.username} is disabled."
    else:
        reason = refusal(user, acl, [need], address, source or "any address")
    rule = None if user.user_type is UserType.SUPER else deciding_entry(acl, need, address)
    return Explanation(
        user=user.username,
        resource=f"{need.kind}:{need.name}",
        actions=action_words(need.actions),
        allowed=reason is None,
        reason=reason or ("Super users may do everything." if rule is None else "the decision is allow."),
        rule=_rule(user.username, acl, rule),
    )


def _rule(username: str, acl: Acl, entry: Entry | None) -> PolicyLine | None:
    if entry is None:
        return None
    return PolicyLine(
        user=username,
        policy=(PolicyType.CUSTOM if entry in acl.custom else PolicyType.DEFAULT).value,
        resource=str(entry.resource),
        actions=action_words(entry.actions),
        sources=list(entry.source_texts),
        decision="Allow" if entry.allows else "Deny",
    )


def _subject(username: str) -> str:
    return f"User:{username}"


def _user_of(info: AclInfo) -> str:
    return (info.subject or "").removeprefix("User:")


def _user(info: UserInfo) -> User:
    return User(
        username=info.username or "",
        password="",
        user_type=word(UserType, info.user_type) or UserType.NORMAL,
        user_status=word(UserStatus, info.user_status) or UserStatus.ENABLE,
    )


def _summary(info: UserInfo) -> UserSummary:
    return UserSummary(user=info.username or "", type=info.user_type, status=info.user_status)


def _lines(info: AclInfo) -> list[PolicyLine]:
    return [
        PolicyLine(
            user=_user_of(info),
            policy=policy.policy_type or PolicyType.CUSTOM.value,
            resource=entry.resource or "",
            actions=entry.actions or [],
            sources=entry.source_ips or [],
            decision=entry.decision or "",
        )
        for policy in info.policies or ()
        for entry in policy.entries or ()
    ]
