"""A broker with `authenticationEnabled` and `authorizationEnabled`: users, policies, migration, an attacker."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from hanabi.access.guard import source_of
from hanabi.access.names import Surroundings
from hanabi.access.policies.directory import Directory
from hanabi.access.policies.gate import PolicyGate
from hanabi.access.policies.model import User, UserType
from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig, as_properties
from hanabi.client.config import Credentials
from hanabi.errors import ConfigError, NoPermission
from hanabi.testing.cluster import Cluster, running_cluster, small_store
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import Command, decode_command, encode_request
from hanabi.wire.headers.acl import AclHeader, DeleteAclHeader, ListAclsHeader, ListUsersHeader, UserHeader
from tests.broker.talk import Peer
from tests.broker.test_access_control import (
    APP,
    ATTACKER,
    OPERATOR,
    PULL,
    RULES,
    SEND,
    WRONG,
    asked,
    attack,
    each_header,
    pull_from,
    rules,
    send_to,
    signed,
)

INIT = json.dumps({"username": OPERATOR.access_key, "password": OPERATOR.secret_key})
INNER = Credentials("inner", "secret-of-inner")
INNER_TEXT = json.dumps({"accessKey": INNER.access_key, "secretKey": INNER.secret_key})


@asynccontextmanager
async def guarded(home: Path, **settings: object) -> AsyncIterator[tuple[Cluster, Peer]]:
    """Run a broker with users, and a peer that is connected to it."""
    given = {"authentication_enabled": True, "authorization_enabled": True, "init_user": INIT} | settings
    async with running_cluster(home, **given) as cluster:  # type: ignore[arg-type]
        for topic in ("Orders", "Secrets", "Own"):
            await cluster.create_topic(topic, queues=1)
        peer = await Peer.connect(cluster.broker.address)
        try:
            yield cluster, peer
        finally:
            await peer.close()


async def make_user(peer: Peer, access: Credentials, *entries: tuple[str, str], by: Credentials = OPERATOR) -> None:
    """Create a user with permissions: resource and actions."""
    body = json.dumps({"username": access.access_key, "password": access.secret_key}).encode()
    made = await asked(peer, RequestCode.AUTH_CREATE_USER, UserHeader(username=access.access_key), by, body)
    assert made.code == 0, made.remark
    for resource, actions in entries:
        granted = await grant(peer, access.access_key, resource, actions, by=by)
        assert granted.code == 0, granted.remark


async def grant(
    peer: Peer, username: str, resource: str, actions: str, decision: str = "Allow", by: Credentials = OPERATOR
) -> Command:
    entry = {"resource": resource, "actions": actions.split(","), "decision": decision}
    body = json.dumps({"subject": f"User:{username}", "policies": [{"entries": [entry]}]}).encode()
    return await asked(peer, RequestCode.AUTH_CREATE_ACL, AclHeader(subject=f"User:{username}"), by, body)


async def get(peer: Peer, code: RequestCode, header: msgspec.Struct, by: Credentials = OPERATOR) -> object:
    answer = await asked(peer, code, header, by, b"")  # type: ignore[arg-type]
    assert answer.code == 0, answer.remark
    return json.loads(answer.body) if answer.body else None


async def test_requests_are_decided_with_the_sentences_of_apache(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (_, peer):
        await make_user(peer, APP, ("Topic:Ord*", "Pub,Sub"), ("Group:readers", "Sub"))
        refused = "User:orders-app has no permission to access {} from 127.0.0.1, {}"
        for access, topic, code, remark in (
            (APP, "Orders", 0, None),
            (None, "Orders", 16, "username cannot be null."),
            (WRONG, "Orders", 16, "check signature failed."),
            (Credentials("stranger", "some-secret"), "Orders", 16, "User:stranger is not found."),
            (APP, "Own", 16, refused.format("Topic:Own", "no matched policies.")),
            (APP, "%RETRY%own", 16, refused.format("Group:own", "no matched policies.")),
            (OPERATOR, "Own", 0, None),
        ):
            answer = await asked(peer, SEND, send_to(topic), access)
            assert (answer.code, answer.remark) == (code, remark), (access, topic)
        await grant(peer, "orders-app", "Topic:Orders", "All", "Deny")
        answer = await asked(peer, SEND, send_to("Orders"), APP)
        assert answer.remark == refused.format("Topic:Orders", "the decision is deny.")


async def test_users_are_administered_by_the_ten_codes(tmp_path: Path) -> None:
    code = RequestCode
    async with guarded(tmp_path) as (cluster, peer):
        await make_user(peer, APP, ("Topic:Orders", "Pub"), ("Group:readers", "Sub"))
        again = json.dumps({"password": "x"}).encode()
        header = UserHeader(username="orders-app")
        existed = await asked(peer, code.AUTH_CREATE_USER, header, OPERATOR, again)
        assert (existed.code, existed.remark) == (16, "The user is existed")
        users = await get(peer, code.AUTH_LIST_USER, ListUsersHeader(filter="orders"))
        shown = {"username": "orders-app", "password": APP.secret_key, "userType": "Normal", "userStatus": "enable"}
        assert users == [shown]
        disabled = await asked(peer, code.AUTH_UPDATE_USER, header, OPERATOR, b'{"userStatus":"disable"}')
        assert disabled.code == 0
        assert (await asked(peer, SEND, send_to("Orders"), APP)).remark == "User:orders-app is disabled."
        assert (await asked(peer, code.AUTH_UPDATE_USER, header, OPERATOR, b'{"userStatus":"enable"}')).code == 0
        acl = await get(peer, code.AUTH_GET_ACL, AclHeader(subject="User:orders-app"))
        entries = [
            {"resource": "Topic:Orders", "actions": ["Pub"], "decision": "Allow"},
            {"resource": "Group:readers", "actions": ["Sub"], "decision": "Allow"},
        ]
        assert acl == {"subject": "User:orders-app", "policies": [{"policyType": "Custom", "entries": entries}]}
        assert await get(peer, code.AUTH_LIST_ACL, ListAclsHeader(subject_filter="orders", resource_filter="")) == [acl]
        delete = DeleteAclHeader(subject="User:orders-app", resource="Topic:Orders")
        assert (await asked(peer, code.AUTH_DELETE_ACL, delete, OPERATOR, b"")).code == 0
        assert (await asked(peer, SEND, send_to("Orders"), APP)).code == 16
        assert (await asked(peer, code.AUTH_DELETE_USER, header, OPERATOR, b"")).code == 0
        assert (await asked(peer, SEND, send_to("Orders"), APP)).remark == "User:orders-app is not found."
        home = Path(cluster.broker.settings.store.root) / "config"
        assert (home / "users.json").stat().st_mode & 0o777 == 0o600
        assert list(Directory(home).users) == ["operator"]


async def test_users_are_there_after_a_restart_and_the_settings_do_not_change_them(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (_, peer):
        await make_user(peer, APP, ("Topic:Orders", "Pub"))
        header = UserHeader(username="operator")
        changed = await asked(peer, RequestCode.AUTH_UPDATE_USER, header, OPERATOR, b'{"password":"another-secret"}')
        assert changed.code == 0
    async with guarded(tmp_path) as (_, peer):
        assert (await asked(peer, SEND, send_to("Orders"), APP)).code == 0
        assert (await asked(peer, SEND, send_to("Own"), OPERATOR)).remark == "check signature failed."
        assert (await asked(peer, SEND, send_to("Own"), Credentials("operator", "another-secret"))).code == 0


async def test_only_a_super_user_makes_super_users_and_reads_passwords(tmp_path: Path) -> None:
    code = RequestCode
    async with guarded(tmp_path) as (_, peer):
        await make_user(peer, APP, ("Cluster:*", "All"))
        header, own = UserHeader(username="evil"), UserHeader(username="orders-app")
        for asked_code, who, body in (
            (code.AUTH_CREATE_USER, header, b'{"password":"secret-x","userType":"Super"}'),
            (code.AUTH_UPDATE_USER, own, b'{"userType":"Super"}'),
            (code.AUTH_UPDATE_USER, UserHeader(username="operator"), b'{"password":"secret-x"}'),
            (code.AUTH_DELETE_USER, UserHeader(username="operator"), b""),
        ):
            answer = await asked(peer, asked_code, who, APP, body)
            assert answer.code in (1, 16), asked_code
            assert "super user" in (answer.remark or ""), asked_code
        users = await get(peer, code.AUTH_LIST_USER, ListUsersHeader(filter=""), by=APP)
        assert isinstance(users, list)
        assert [(user["username"], user.get("password")) for user in users] == [
            ("operator", None),
            ("orders-app", None),
        ]


async def test_with_authentication_alone_accounts_still_need_rights(tmp_path: Path) -> None:
    async with guarded(tmp_path, authorization_enabled=False) as (_, peer):
        await make_user(peer, APP)
        assert (await asked(peer, SEND, send_to("Secrets"), APP)).code == 0
        header = UserHeader(username="operator")
        for code in (RequestCode.AUTH_UPDATE_USER, RequestCode.AUTH_GET_USER, RequestCode.AUTH_CREATE_USER):
            assert (await asked(peer, code, header, APP, b'{"password":"secret-x"}')).code == 16, code


async def test_codes_of_the_white_lists_skip_their_check_but_those_of_users_never(tmp_path: Path) -> None:
    every = ",".join(str(int(code)) for code in RequestCode)
    async with guarded(tmp_path, authentication_white_list=every, authorization_white_list=every) as (_, peer):
        assert (await asked(peer, SEND, send_to("Own"), None)).code == 0
        for code in range(RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_LIST_ACL + 1):
            answer = await asked(peer, code, each_header(code), None, b"{}")
            assert (answer.code, answer.remark) == (16, "username cannot be null."), code


async def test_accounts_of_4_9_are_migrated_once(tmp_path: Path) -> None:
    folder = rules(tmp_path)
    settings = {"init_user": "", "migrate_accounts": True, "acl_folder": str(folder)}
    async with guarded(tmp_path, **settings) as (_, peer):
        assert (await asked(peer, SEND, send_to("Orders"), APP)).code == 0
        assert (await asked(peer, SEND, send_to("Own"), APP)).code == 16
        assert (await asked(peer, SEND, send_to("Own"), OPERATOR)).code == 0
        header = DeleteAclHeader(subject="User:orders-app")
        assert (await asked(peer, RequestCode.AUTH_DELETE_ACL, header, OPERATOR, b"")).code == 0
    async with guarded(tmp_path, **settings) as (_, peer):
        assert (await asked(peer, SEND, send_to("Orders"), APP)).code == 16


async def test_with_both_models_both_must_agree(tmp_path: Path) -> None:
    folder = rules(tmp_path, RULES)
    async with guarded(tmp_path, acl_enabled=True, acl_folder=str(folder)) as (_, peer):
        assert (await asked(peer, SEND, send_to("Orders"), APP)).remark == "User:orders-app is not found."
        await make_user(peer, APP, ("Topic:*", "All"))
        assert (await asked(peer, SEND, send_to("Orders"), APP)).code == 0
        assert (await asked(peer, SEND, send_to("Own"), APP)).remark == "No default permission for topic:Own"


@pytest.mark.parametrize("access", [ATTACKER, None], ids=["unprivileged", "unsigned"])
async def test_an_attacker_who_tries_each_code_changes_and_reads_nothing(
    tmp_path: Path, access: Credentials | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with guarded(tmp_path, inner_credentials=INNER_TEXT) as (cluster, peer):
        await make_user(peer, ATTACKER, ("Topic:Own", "All"), ("Group:own", "All"))
        assert (await asked(peer, SEND, send_to("Secrets"), OPERATOR, b"secret")).code == 0
        broker = cluster.broker
        assert broker.access_control is not None
        assert broker.access_control.policies is not None
        directory = broker.access_control.policies.directory

        def state() -> tuple[object, ...]:
            tables = broker.tables
            changeable = tables.topics.table(), tables.groups.table(), tables.offsets.table(), broker.settings.broker
            return (*changeable, broker.store.max_log_offset, dict(directory.users), dict(directory.acls))

        before = state()
        for code in RequestCode:
            body = b'{"clientId":"c","clientID":"c","consumerGroup":"victims","mqSet":[],"password":"secret-x",'
            body += b'"topicConfigList":[{"topicName":"Secrets"}]}'
            await attack(peer, code, access, body)
        assert (await asked(peer, PULL, pull_from("Secrets", "own"), access)).code == 16
        assert state() == before
    assert "secret-of" not in caplog.text


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("init_user", "operator"),
        ("init_user", '{"username":"operator","password":"secret-x"'),
        ("init_user", '{"username":"operator"}'),
        ("init_user", '{"username":"operator","password":"${NO_SUCH_VARIABLE_HERE}"}'),
        ("inner_credentials", '{"accessKey":"inner","secretKey":5}'),
        ("inner_credentials", '{"username":"inner","password":"secret-x"}'),
    ],
)
async def test_users_of_the_settings_that_are_wrong_stop_the_start_without_a_secret(
    tmp_path: Path, key: str, text: str
) -> None:
    config = msgspec.structs.replace(BrokerConfig(authentication_enabled=True), **{key: text})
    with pytest.raises(ConfigError) as caught:
        await Broker(config, small_store(tmp_path)).start("127.0.0.1", 0)
    assert ("initAuthenticationUser" if key == "init_user" else "innerClientAuth") in str(caught.value)
    assert "secret-x" not in str(caught.value)


async def test_a_damaged_file_of_users_stops_the_start_and_names_it(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "users.json").write_text('{"app": ')
    with pytest.raises(Exception, match=r"users\.json"):
        await Broker(BrokerConfig(authentication_enabled=True), small_store(tmp_path)).start("127.0.0.1", 0)


async def test_secrets_of_the_settings_come_from_the_environment_and_are_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPERATOR_SECRET", OPERATOR.secret_key)
    text = '{"username":"operator","password":"${OPERATOR_SECRET}"}'
    async with guarded(tmp_path, init_user=text, inner_credentials=INNER_TEXT) as (cluster, peer):
        answer = await asked(peer, RequestCode.GET_BROKER_CONFIG, None, OPERATOR, b"")
        assert answer.code == 0
        assert b"secret-of" not in answer.body
        assert b"OPERATOR_SECRET" not in answer.body
        shown = as_properties(cluster.broker.settings.broker)
        assert shown["innerClientAuthenticationCredentials"] == "******"
        assert cluster.broker.access_control is not None
        policies = cluster.broker.access_control.policies
        assert policies is not None
        assert {name: user.user_type for name, user in policies.directory.users.items()} == {
            "operator": UserType.SUPER,
            "inner": UserType.SUPER,
        }


def test_a_published_password_is_valid_on_this_machine_only(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    sample = Credentials("rocketmq", "12345678")
    directory.create_user(User(username="rocketmq", password="12345678", user_type=UserType.SUPER))  # noqa: S106
    gate = PolicyGate(directory, Surroundings("c", "r", lambda _: None))
    frame = encode_request(code=RequestCode.GET_BROKER_CONFIG, opaque=1, header=signed(None, sample))
    request = decode_command(frame[4:])
    gate.check(None, request, source_of("127.0.0.1:1"))
    with pytest.raises(NoPermission, match="published sample"):
        gate.check(None, request, source_of("10.1.2.3:1"))
