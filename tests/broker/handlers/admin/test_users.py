"""Users and policies of ACL 2.0 over the wire: the ten requests of mqadmin 5.x, on real bytes, behind their gate."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from hanabi.access.guard import Watch, guarded
from hanabi.access.names import Surroundings
from hanabi.access.policies.directory import Directory
from hanabi.access.policies.gate import PolicyGate
from hanabi.access.policies.model import User, UserType
from hanabi.access.refusals import Refusals
from hanabi.broker.handlers.admin.policies import policy_handlers
from hanabi.broker.handlers.admin.users import user_handlers
from hanabi.wire.bodies.acl import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import encode_body
from hanabi.wire.header import Header, header_fields
from hanabi.wire.headers.acl import AclHeader, DeleteAclHeader, ListAclsHeader, ListUsersHeader, UserHeader
from hanabi.wire.signature import ACCESS_KEY, SIGNATURE, signature
from tests.broker.talk import Peer, serving

CREATE_USER, UPDATE_USER, DELETE_USER = (
    RequestCode.AUTH_CREATE_USER,
    RequestCode.AUTH_UPDATE_USER,
    RequestCode.AUTH_DELETE_USER,
)
GET_USER, LIST_USER = RequestCode.AUTH_GET_USER, RequestCode.AUTH_LIST_USER
CREATE_ACL, DELETE_ACL = RequestCode.AUTH_CREATE_ACL, RequestCode.AUTH_DELETE_ACL
GET_ACL, LIST_ACL = RequestCode.AUTH_GET_ACL, RequestCode.AUTH_LIST_ACL


class Session:
    """A peer that signs."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    async def ask(self, code: int, header: Header, body: object = None, *, by: str = "root") -> Command:
        raw = encode_body(body) if isinstance(body, UserInfo | AclInfo) else b""
        fields = {**header_fields(header), ACCESS_KEY: by}
        return await self._peer.ask(code, {**fields, SIGNATURE: signature(fields, raw, f"secret of {by}")}, raw)


@asynccontextmanager
async def session(home: Path) -> AsyncIterator[tuple[Session, Directory]]:
    directory = Directory(home)
    directory.create_user(User(username="root", password="secret of root", user_type=UserType.SUPER))  # noqa: S106
    gate = PolicyGate(directory, Surroundings("c", "c_REPLY_TOPIC", lambda _: None))
    handlers = {**user_handlers(directory, gate.user_of), **policy_handlers(directory)}
    async with serving(guarded(handlers, [gate], Watch(Refusals(lambda: 0.0).refused))) as address:
        peer = await Peer.connect(address)
        try:
            yield Session(peer), directory
        finally:
            await peer.close()


def entry(resource: str, *actions: str, decision: str = "Allow") -> AclInfo:
    info = PolicyEntryInfo(resource=resource, actions=list(actions), decision=decision)
    return AclInfo(policies=[PolicyInfo(entries=[info])])


def user(name: str, kind: str | None = None) -> UserInfo:
    return UserInfo(password=f"secret of {name}", user_type=kind)


async def test_users_are_created_changed_shown_and_deleted(tmp_path: Path) -> None:
    async with session(tmp_path) as (peer, directory):
        assert (await peer.ask(CREATE_USER, UserHeader(username="app"), user("app"))).code == 0
        again = await peer.ask(CREATE_USER, UserHeader(username="app"), user("app"))
        assert (again.code, again.remark) == (16, "The user is existed")
        blank = await peer.ask(CREATE_USER, UserHeader(username=" "), user("app"))
        assert (blank.code, blank.remark) == (29, "The username is blank")
        assert (await peer.ask(UPDATE_USER, UserHeader(username="app"), UserInfo(user_status="DISABLE"))).code == 0
        shown = msgspec.json.decode((await peer.ask(GET_USER, UserHeader(username="app"))).body)
        assert shown == {
            "username": "app",
            "password": "secret of app",
            "userType": "Normal",
            "userStatus": "disable",
        }
        unknown = await peer.ask(UPDATE_USER, UserHeader(username="nobody"), UserInfo(user_status="enable"))
        assert (unknown.code, unknown.remark) == (16, "The user is not exist")
        listed = msgspec.json.decode((await peer.ask(LIST_USER, ListUsersHeader())).body)
        assert [each["username"] for each in listed] == ["app", "root"]
        assert (await peer.ask(LIST_USER, ListUsersHeader(filter="nobody"))).body == b""
        assert (await peer.ask(DELETE_USER, UserHeader(username="app"))).code == 0
        assert (await peer.ask(DELETE_USER, UserHeader(username="app"))).code == 0
        assert set(directory.users) == {"root"}


async def test_policies_are_merged_shown_and_deleted(tmp_path: Path) -> None:
    async with session(tmp_path) as (peer, directory):
        subject = AclHeader(subject="User:app")
        missing = await peer.ask(CREATE_ACL, subject, entry("Topic:orders", "Pub"))
        assert (missing.code, missing.remark) == (16, "The subject of User:app is not exist.")
        await peer.ask(CREATE_USER, UserHeader(username="app"), user("app"))
        assert (await peer.ask(GET_ACL, subject)).body == b""
        assert (await peer.ask(CREATE_ACL, subject, entry("Topic:orders", "Pub"))).code == 0
        assert (await peer.ask(RequestCode.AUTH_UPDATE_ACL, subject, entry("Group:*", "Sub"))).code == 0
        assert (await peer.ask(CREATE_ACL, subject, entry("Topic:orders", "Sub", decision="Deny"))).code == 0
        empty = await peer.ask(CREATE_ACL, subject)
        assert (empty.code, empty.remark) == (16, "The body of acl is null")
        shown = msgspec.json.decode((await peer.ask(GET_ACL, subject)).body)
        assert shown == {
            "subject": "User:app",
            "policies": [
                {
                    "policyType": "Custom",
                    "entries": [
                        {"resource": "Topic:orders", "actions": ["Sub"], "decision": "Deny"},
                        {"resource": "Group:*", "actions": ["Sub"], "decision": "Allow"},
                    ],
                }
            ],
        }
        listed = msgspec.json.decode((await peer.ask(LIST_ACL, ListAclsHeader(resource_filter="Group"))).body)
        assert [each["resource"] for each in listed[0]["policies"][0]["entries"]] == ["Group:*"]
        assert (await peer.ask(LIST_ACL, ListAclsHeader(subject_filter="other"))).body == b""
        assert (await peer.ask(DELETE_ACL, DeleteAclHeader(subject="User:app", resource="Group:*"))).code == 0
        assert (await peer.ask(DELETE_ACL, DeleteAclHeader(subject="User:app"))).code == 0
        gone = await peer.ask(DELETE_ACL, DeleteAclHeader(subject="User:app"))
        assert (gone.code, gone.remark) == (16, "The acl is not exist.")
        assert directory.acls == {}


async def test_only_a_super_user_makes_or_changes_one_and_sees_passwords(tmp_path: Path) -> None:
    async with session(tmp_path) as (peer, _):
        await peer.ask(CREATE_USER, UserHeader(username="admin"), user("admin"))
        await peer.ask(CREATE_ACL, AclHeader(subject="User:admin"), entry("Cluster:*", "All"))
        promoted = await peer.ask(CREATE_USER, UserHeader(username="evil"), user("evil", "Super"), by="admin")
        assert (promoted.code, promoted.remark) == (1, "The super user can only be create by super user")
        own = await peer.ask(UPDATE_USER, UserHeader(username="admin"), UserInfo(user_type="super"), by="admin")
        assert (own.code, own.remark) == (1, "The super user can only be update by super user")
        for code in (UPDATE_USER, DELETE_USER):
            answer = await peer.ask(code, UserHeader(username="root"), UserInfo(user_status="disable"), by="admin")
            assert (answer.code, answer.remark) == (16, "The super user can only be update by super user")
        assert b"secret" not in (await peer.ask(GET_USER, UserHeader(username="root"), by="admin")).body
        assert b"secret" not in (await peer.ask(LIST_USER, ListUsersHeader(), by="admin")).body


async def test_a_user_without_rights_on_the_cluster_is_refused(tmp_path: Path) -> None:
    async with session(tmp_path) as (peer, _):
        await peer.ask(CREATE_USER, UserHeader(username="app"), user("app"))
        refused = await peer.ask(LIST_USER, ListUsersHeader(), by="app")
        assert refused.remark == "User:app has no permission to access Cluster:c from 127.0.0.1, no matched policies."
        stranger = await peer.ask(LIST_USER, ListUsersHeader(), by="nobody")
        assert (stranger.code, stranger.remark) == (16, "User:nobody is not found.")
