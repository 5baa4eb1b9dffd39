"""A broker with `aclEnable`: allowed and refused requests, changes over the wire, an attacker who tries each code."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import hanabi
from hanabi.aio import Producer, PushConsumer
from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig, read_broker_config
from hanabi.client.config import Credentials
from hanabi.errors import ConfigError, NoPermission, SendFailed
from hanabi.testing.clock import ManualClock
from hanabi.testing.cluster import Cluster, running_cluster, small_store
from hanabi.testing.waiting import eventually
from hanabi.wire.codes import HeaderForm, RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.header import Header, header_fields
from hanabi.wire.headers.acl import (
    CreateAccessConfigHeader,
    DeleteAccessConfigHeader,
    GetBrokerAclInfoReplyHeader,
    UpdateGlobalWhiteAddrsHeader,
)
from hanabi.wire.headers.offset import GetMaxOffsetHeader
from hanabi.wire.headers.pull import PullMessageHeader
from hanabi.wire.headers.query import ViewMessageHeader
from hanabi.wire.headers.send import ConsumerSendMsgBackHeader, SendMessageReplyHeader, SendMessageV2Header
from hanabi.wire.message.message_id import decode_offset_id
from hanabi.wire.registry.headers import REQUEST_HEADERS
from hanabi.wire.signature import ACCESS_KEY, SIGNATURE, signature
from tests.broker.talk import Peer

APP = Credentials("orders-app", "secret-of-orders")
WRONG = Credentials("orders-app", "wrong-secret")
OPERATOR = Credentials("operator", "secret-of-operator")
ATTACKER = Credentials("attacker", "secret-of-attacker")

RULES = """
accounts:
- accessKey: orders-app
  secretKey: secret-of-orders
  topicPerms:
  - Orders=PUB|SUB
  - Secrets=PUB
  groupPerms:
  - readers=SUB
- accessKey: attacker
  secretKey: secret-of-attacker
  topicPerms:
  - Own=PUB|SUB
  groupPerms:
  - own=SUB
- accessKey: operator
  secretKey: secret-of-operator
  admin: true
"""


def rules(home: Path, text: str = RULES) -> Path:
    folder = home / "conf"
    folder.mkdir(exist_ok=True)
    (folder / "plain_acl.yml").write_text(text)
    return folder


@asynccontextmanager
async def guarded(home: Path, text: str = RULES, **settings: Any) -> AsyncIterator[tuple[Cluster, Peer]]:
    """Run a broker with access control, and a peer that is connected to it."""
    folder = rules(home, text)
    async with running_cluster(home, acl_enabled=True, acl_folder=str(folder), **settings) as cluster:
        for topic in ("Orders", "Secrets", "Own"):
            await cluster.create_topic(topic, queues=1)
        peer = await Peer.connect(cluster.broker.address)
        try:
            yield cluster, peer
        finally:
            await peer.close()


def signed(header: Header | None, access: Credentials | None, body: bytes = b"") -> Mapping[str, str]:
    fields = header_fields(header) if header is not None else {}
    if access is None:
        return fields
    fields[ACCESS_KEY] = access.access_key
    return {**fields, SIGNATURE: signature(fields, body, access.secret_key)}


async def asked(
    peer: Peer,
    code: int,
    header: Header | None,
    access: Credentials | None,
    body: bytes = b"body",
    form: HeaderForm = HeaderForm.JSON,
) -> Command:
    return await peer.ask(code, signed(header, access, body), body, form=form)


def send_to(topic: str) -> SendMessageV2Header:
    return SendMessageV2Header(
        producer_group="senders",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=0,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
    )


def pull_from(topic: str, group: str) -> PullMessageHeader:
    return PullMessageHeader(
        consumer_group=group,
        topic=topic,
        queue_id=0,
        queue_offset=0,
        max_msg_nums=8,
        sys_flag=4,
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=0,
        subscription="*",
    )


SEND, PULL = RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE


@pytest.mark.parametrize("form", HeaderForm)
async def test_requests_are_decided_with_the_sentences_of_apache(tmp_path: Path, form: HeaderForm) -> None:
    async with guarded(tmp_path) as (_, peer):
        for access, topic, code, remark in (
            (APP, "Orders", 0, None),
            (None, "Orders", 16, "No accessKey is configured"),
            (WRONG, "Orders", 16, "Check signature failed for accessKey=orders-app"),
            (Credentials("stranger", "some-secret"), "Orders", 16, "No acl config for stranger"),
            (APP, "Own", 16, "No default permission for topic:Own"),
            (APP, "%RETRY%own", 16, "No default permission for group:own"),
            (OPERATOR, "Own", 0, None),
        ):
            answer = await asked(peer, SEND, send_to(topic), access, b"body", form)
            assert (answer.code, answer.remark) == (code, remark), (access, topic)


async def test_our_producer_and_consumer_work_with_their_credentials(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (cluster, _):
        config = msgspec.structs.replace(cluster.config(), access=APP)
        got: asyncio.Queue[bytes] = asyncio.Queue()

        async def listen(messages: list[hanabi.StoredMessage]) -> None:
            for message in messages:
                got.put_nowait(message.body)

        consumer = PushConsumer("readers", config=config, consume_from="first")
        consumer.subscribe("Orders")
        consumer.listener(listen)
        async with consumer, Producer("senders", config=config, retries=0) as producer:
            await producer.send(hanabi.Message("Orders", "größe".encode(), keys=["key"]))
            async with asyncio.timeout(60):
                assert await got.get() == "größe".encode()
            with pytest.raises((SendFailed, NoPermission), match="topic:Own"):
                await producer.send(hanabi.Message("Own", b"x"))


async def test_a_one_way_send_that_is_refused_stores_nothing(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (cluster, peer):
        fields = signed(send_to("Own"), APP, b"x")
        answer = await peer.ask(SEND, {**fields, "b": "Orders"}, b"x")  # signed for another topic
        assert answer.code == 16
        assert cluster.broker.store.reader.max_offset("Orders", 0) == 0
        async with Producer("s", config=msgspec.structs.replace(cluster.config(), access=APP), retries=0) as producer:
            await producer.send_oneway(hanabi.Message("Own", b"x"))
            await producer.send(hanabi.Message("Orders", b"x"))
        assert cluster.broker.store.reader.max_offset("Own", 0) == 0
        assert cluster.broker.access_control is not None
        await eventually(
            lambda: cluster.broker.access_control is not None and cluster.broker.access_control.refusals.count >= 2
        )


async def test_changed_rules_are_in_force_without_a_restart(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (cluster, peer):
        assert (await asked(peer, SEND, send_to("Own"), APP)).code == 16
        rules(tmp_path, RULES.replace("- Orders=PUB|SUB", "- Own=PUB"))
        control = cluster.broker.access_control
        assert control is not None
        await eventually(lambda: "Own" in control.files.rules.accounts["orders-app"].topics)
        assert (await asked(peer, SEND, send_to("Own"), APP)).code == 0
        assert (await asked(peer, SEND, send_to("Orders"), APP)).code == 16


async def test_an_administrator_changes_accounts_and_no_other_account_can(tmp_path: Path) -> None:
    account = CreateAccessConfigHeader(
        access_key="new-app",
        secret_key="secret-of-new",  # noqa: S106
        topic_perms="Orders=PUB",
        admin=False,
    )
    async with guarded(tmp_path) as (cluster, peer):
        update, delete = RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, RequestCode.DELETE_ACL_CONFIG
        versions, white = RequestCode.GET_BROKER_CLUSTER_ACL_INFO, RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG
        promoted = msgspec.structs.replace(account, access_key="attacker", admin=True)
        addresses = UpdateGlobalWhiteAddrsHeader(global_white_addrs="127.0.0.1")
        for code, header in (
            (update, promoted),
            (delete, DeleteAccessConfigHeader(access_key="operator")),
            (white, addresses),
        ):
            answer = await asked(peer, code, header, ATTACKER)
            assert answer.remark == f"Need admin permission for request code={int(code)}, but accessKey=attacker is not"
        assert (await asked(peer, update, account, OPERATOR)).code == 0
        assert (await asked(peer, SEND, send_to("Orders"), Credentials("new-app", "secret-of-new"))).code == 0
        bad = await asked(peer, update, msgspec.structs.replace(account, secret_key="short"), OPERATOR)  # noqa: S106
        assert bad.code == ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
        told = (await asked(peer, versions, None, OPERATOR)).header(GetBrokerAclInfoReplyHeader)
        assert (told.broker_name, told.broker_addr) == ("broker-a", cluster.broker.address)
        assert msgspec.json.decode(told.version)["counter"] == 1
        assert (await asked(peer, delete, DeleteAccessConfigHeader(access_key="new-app"), OPERATOR)).code == 0
        gone = await asked(peer, delete, DeleteAccessConfigHeader(access_key="new-app"), OPERATOR)
        assert gone.code == ResponseCode.DELETE_ACL_CONFIG_FAILED
        assert "new-app" in (gone.remark or "")
        elsewhere = msgspec.structs.replace(addresses, acl_file_full_path="/etc/passwd")
        refused = await asked(peer, white, elsewhere, OPERATOR)
        assert refused.code == ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED
        assert (await asked(peer, white, addresses, OPERATOR)).code == 0
        assert (await asked(peer, SEND, send_to("Own"), None)).code == 0  # the address is trusted now


async def test_a_foreign_message_is_not_read_by_its_place(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (_, peer):
        sent = (await asked(peer, SEND, send_to("Secrets"), APP, b"secret")).header(SendMessageReplyHeader)
        offset = decode_offset_id(sent.msg_id).log_offset
        view = ViewMessageHeader(offset=offset)
        assert (await asked(peer, RequestCode.VIEW_MESSAGE_BY_ID, view, ATTACKER)).code == 16
        assert b"secret" in (await asked(peer, RequestCode.VIEW_MESSAGE_BY_ID, view, OPERATOR)).body
        back = ConsumerSendMsgBackHeader(offset=offset, group="own", delay_level=0)
        answer = await asked(peer, RequestCode.CONSUMER_SEND_MSG_BACK, back, ATTACKER)
        assert (answer.code, answer.remark) == (16, "No default permission for topic:Secrets")
        assert (await asked(peer, PULL, pull_from("Secrets", "own"), ATTACKER)).code == 16


def each_header(code: int) -> Header | None:
    """Return a header of *code* that names foreign resources, or none."""
    kind = REQUEST_HEADERS.get(code)
    if kind is None:
        return None
    fields: dict[str, object] = {}
    for item in msgspec.structs.fields(kind):
        if item.required:
            fields[item.encode_name] = "Secrets" if item.type is str else 0
    return msgspec.convert(fields, kind, strict=False)


def state(cluster: Cluster) -> tuple[object, ...]:
    """Return what an attacker might change."""
    broker = cluster.broker
    return (
        broker.tables.topics.table(),
        broker.tables.groups.table(),
        broker.tables.offsets.table(),
        broker.settings.broker,
        broker.store.max_log_offset,
        broker.access_control and broker.access_control.files.rules,
    )


# Requests about nothing but the sender itself, or about a message that is not there.
HEARTBEAT = (
    b'{"clientID":"c","consumerDataSet":[{"groupName":"victims","consumeType":"CONSUME_PASSIVELY",'
    b'"messageModel":"CLUSTERING","subscriptionDataSet":[{"topic":"Secrets","subString":"*"}]}]}'
)
HARMLESS = {RequestCode.END_TRANSACTION, RequestCode.VIEW_MESSAGE_BY_ID, RequestCode.UNREGISTER_CLIENT}


async def attack(peer: Peer, code: RequestCode, access: Credentials | None, body: bytes) -> None:
    """Send a request of an attacker, with *body* or a heartbeat: it is refused, and the answer tells no secret."""
    body = HEARTBEAT if code is RequestCode.HEART_BEAT else body
    answer = await asked(peer, code, each_header(code), access, body)
    is_allowed = answer.code == 0 and not (access is not None and code in HARMLESS)
    assert not is_allowed, code.name
    assert b"secret" not in answer.body, code.name
    assert "secret-of" not in (answer.remark or ""), code.name


@pytest.mark.parametrize("access", [ATTACKER, None], ids=["unprivileged", "unsigned"])
async def test_an_attacker_who_tries_each_code_changes_and_reads_nothing(
    tmp_path: Path, access: Credentials | None
) -> None:
    async with guarded(tmp_path) as (cluster, peer):
        assert (await asked(peer, SEND, send_to("Secrets"), APP, b"secret")).code == 0
        before = state(cluster)
        for code in RequestCode:
            body = b'{"clientId":"c","clientID":"c","consumerGroup":"victims","mqSet":[]}'
            await attack(peer, code, access, body)
        assert state(cluster) == before


async def test_a_million_of_wrong_signatures_take_no_memory(tmp_path: Path) -> None:
    """A thousand here: each refusal leaves at most one entry, and these are bounded."""
    async with guarded(tmp_path, guess_delay_ms=0) as (cluster, peer):
        for number in range(1_000):
            await peer.ask(SEND, {**header_fields(send_to("Orders")), ACCESS_KEY: f"account-{number}", SIGNATURE: "x"})
        control = cluster.broker.access_control
        assert control is not None
        assert control.refusals.count == 1_000
        assert (await asked(peer, SEND, send_to("Orders"), APP)).code == 0


async def test_wrong_signatures_are_answered_late_and_other_clients_at_once(tmp_path: Path) -> None:
    async with guarded(tmp_path, guess_delay_ms=60_000) as (cluster, peer):
        for _ in range(10):
            assert (await asked(peer, SEND, send_to("Orders"), WRONG)).code == 16
        for _ in range(20):  # until an answer takes longer than all that follows
            waiting = peer.start(SEND, signed(send_to("Orders"), WRONG, b"body"), b"body")
            done, _ = await asyncio.wait([waiting], timeout=2.0)
            if not done:
                break
        assert not waiting.done()
        other = await Peer.connect(cluster.broker.address)  # the same address, and the account under attack
        for _ in range(20):
            assert (await asked(other, SEND, send_to("Orders"), APP)).code == 0
        behind = peer.start(SEND, signed(send_to("Orders"), APP, b"body"), b"body")
        assert (await asked(other, SEND, send_to("Orders"), APP)).code == 0
        assert not behind.done()  # this connection is read later
        control = cluster.broker.access_control
        assert control is not None
        assert control.guesses is not None
        assert control.guesses.delayed >= 1
        waiting.cancel()
        behind.cancel()
        await other.close()


async def test_a_jump_of_the_clock_changes_no_verdict(tmp_path: Path) -> None:
    clock = ManualClock(time.time_ns() // 1_000_000)
    async with guarded(tmp_path, now_ms=clock, account_quotas='{"*":{"requestsPerSecond":1000}}') as (_, peer):
        for days in (400, -800, 400):
            clock.ms += days * 24 * 3_600_000
            assert (await asked(peer, SEND, send_to("Orders"), APP)).code == 0
            assert (await asked(peer, SEND, send_to("Orders"), WRONG)).code == 16
            assert (await asked(peer, SEND, send_to("Own"), APP)).code == 16


async def test_without_access_control_nothing_is_checked_and_the_fast_path_is_used(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("Orders", queues=1)
        peer = await Peer.connect(cluster.broker.address)
        assert cluster.broker.access_control is None
        assert (await asked(peer, SEND, send_to("Orders"), WRONG)).code == 0
        code = RequestCode.GET_BROKER_CLUSTER_ACL_INFO
        assert (await asked(peer, code, None, None)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        await peer.close()


async def test_a_bad_file_stops_the_start(tmp_path: Path) -> None:
    folder = rules(tmp_path, "accounts: [")
    broker = Broker(BrokerConfig(acl_enabled=True, acl_folder=str(folder)), small_store(tmp_path / "store"))
    with pytest.raises(ConfigError, match=r"plain_acl\.yml"):
        await broker.start("127.0.0.1", 0)


def test_the_files_are_in_the_home_of_rocketmq_or_beside_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("aclEnable=true\n")
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)
    assert read_broker_config(path)[0].acl_folder == str(tmp_path)
    monkeypatch.setenv("ROCKETMQ_HOME", os.fspath(tmp_path / "home"))
    assert read_broker_config(path)[0].acl_folder == str(tmp_path / "home" / "conf")
    path.write_text("aclEnable=true\naclFolder=/elsewhere\n")
    assert read_broker_config(path)[0].acl_folder == "/elsewhere"


async def test_a_message_for_a_timed_topic_is_found_by_its_final_topic(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (_, peer):
        delayed = msgspec.structs.replace(send_to("Secrets"), properties="DELAY\x0118\x02")
        sent = (await asked(peer, SEND, delayed, APP, b"secret")).header(SendMessageReplyHeader)
        view = ViewMessageHeader(offset=decode_offset_id(sent.msg_id).log_offset)
        answer = await asked(peer, RequestCode.VIEW_MESSAGE_BY_ID, view, ATTACKER)
        assert (answer.code, answer.remark) == (16, "No default permission for topic:Secrets")


async def test_offsets_are_told_to_those_who_may_send_or_read(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (_, peer):
        header = GetMaxOffsetHeader(topic="Secrets", queue_id=0)
        assert (await asked(peer, RequestCode.GET_MAX_OFFSET, header, APP)).code == 0
        assert (await asked(peer, RequestCode.GET_MAX_OFFSET, header, ATTACKER)).code == 16
