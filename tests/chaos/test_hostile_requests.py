"""Tests of what an attacker asks a live cluster for: bombs, giant counts, names that are paths, names that forge log
lines.

After each of them the servers hold no more than before, nothing lies outside their folders, and a normal client is
served.
"""

import asyncio
import gc
import re
import resource
import struct
import sys
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from chaos.fuzz.names import NASTY
from hanabi.errors import RemoteProtocolError
from hanabi.testing.cluster import Cluster, running_cluster
from hanabi.wire.bodies.heartbeat import HeartbeatData, ProducerData
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import encode_body
from hanabi.wire.headers.namesrv import RegisterBrokerHeader
from hanabi.wire.headers.pull import PullMessageHeader
from hanabi.wire.headers.send import SendMessageV2Header
from hanabi.wire.message import sysflag
from hanabi.wire.message.compression import decompress
from tests.broker.talk import Peer
from tests.interop.processes import ServerProcess

MIB = 1 << 20
BOMB_PLAIN_BYTES = 300 * MIB
ALLOWED_KIB = 200 * 1024  # more than any request may need, less than any bomb holds

SEND = SendMessageV2Header(
    producer_group="shop",
    topic="Orders",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=0,
    sys_flag=0,
    born_timestamp=1,
    flag=0,
    properties="",
)
PULL = PullMessageHeader(
    consumer_group="billing",
    topic="Orders",
    queue_id=0,
    queue_offset=0,
    max_msg_nums=32,
    sys_flag=4,
    commit_offset=0,
    suspend_timeout_millis=0,
    sub_version=0,
    subscription="*",
    expression_type="TAG",
)


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """Three hundred MiB in a third of one."""
    packer = zlib.compressobj(9)
    zeros = bytes(10 * MIB)
    return b"".join(packer.compress(zeros) for _ in range(BOMB_PLAIN_BYTES // len(zeros))) + packer.flush()


def peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@asynccontextmanager
async def attacked(home: Path) -> AsyncIterator[tuple[Cluster, Peer, Peer]]:
    """Yield a cluster with peers of its broker and its name server; afterwards a normal client is served."""
    async with running_cluster(home) as running:
        broker, namesrv = await Peer.connect(running.address), await Peer.connect(running.namesrv)
        try:
            yield running, broker, namesrv
            gc.collect()
            normal = await Peer.connect(running.address)
            assert (await normal.ask(RequestCode.SEND_MESSAGE_V2, SEND, b"good")).code == ResponseCode.SUCCESS
            pulled = await normal.ask(RequestCode.PULL_MESSAGE, PULL)
            assert (pulled.code, b"good" in bytes(pulled.body)) == (ResponseCode.SUCCESS, True)
            await normal.close()
        finally:
            await broker.close()
            await namesrv.close()


# Decompression bombs


async def test_a_bomb_in_a_message_is_stored_packed_and_unpacked_by_nobody(tmp_path: Path, bomb: bytes) -> None:
    async with attacked(tmp_path) as (_, broker, _):
        packed = msgspec.structs.replace(SEND, topic="Bombs", sys_flag=sysflag.COMPRESSED)
        before = peak_kib()
        assert (await broker.ask(RequestCode.SEND_MESSAGE_V2, packed, bomb)).code == ResponseCode.SUCCESS
        pull = msgspec.structs.replace(PULL, topic="Bombs")
        assert (await broker.ask(RequestCode.PULL_MESSAGE, pull)).code == ResponseCode.SUCCESS
        assert peak_kib() - before < ALLOWED_KIB


def test_a_consumer_does_not_unpack_a_bomb(bomb: bytes) -> None:
    before = peak_kib()
    with pytest.raises(RemoteProtocolError, match="unpacks to more than"):
        decompress(bomb, sysflag.COMPRESSED)
    assert peak_kib() - before < ALLOWED_KIB


async def test_a_bomb_instead_of_a_registration_is_refused(tmp_path: Path, bomb: bytes) -> None:
    async with attacked(tmp_path) as (running, _, namesrv):
        header = RegisterBrokerHeader(
            broker_name="bomber",
            broker_addr="127.0.0.1:1",
            cluster_name="DefaultCluster",
            ha_server_addr="127.0.0.1:2",
            broker_id=0,
            compressed=True,
            body_crc32=zlib.crc32(bomb) & 0x7FFF_FFFF,
        )
        before = peak_kib()
        refused = await namesrv.ask(RequestCode.REGISTER_BROKER, header, bomb)
        assert refused.code != ResponseCode.SUCCESS
        assert "more than" in (refused.remark or ""), refused.remark
        assert peak_kib() - before < ALLOWED_KIB
        assert "bomber" not in running.name_server.routes.cluster_info().broker_addr_table


# Giant counts

INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1

GIANT_COUNTS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "a pull of two billion messages": (
        RequestCode.PULL_MESSAGE,
        {**{field: str(value) for field, value in msgspec.to_builtins(PULL).items()}, "maxMsgNums": str(INT_MAX)},
        b"",
    ),
    "a query for two billion messages": (
        RequestCode.QUERY_MESSAGE,
        {"topic": "Orders", "key": "k", "maxNum": str(INT_MAX), "beginTimestamp": "0", "endTimestamp": str(LONG_MAX)},
        b"",
    ),
    "two billion entries of a queue": (
        RequestCode.QUERY_CONSUME_QUEUE,
        {"topic": "Orders", "queueId": "0", "index": "0", "count": str(INT_MAX), "consumerGroup": "billing"},
        b"",
    ),
    "a topic of two billion queues": (
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        {
            "topic": "Giant",
            "defaultTopic": "TBW102",
            "readQueueNums": str(INT_MAX),
            "writeQueueNums": str(INT_MAX),
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
        },
        b"",
    ),
    "a batch that says it is two gigabytes long": (
        RequestCode.SEND_BATCH_MESSAGE,
        {**{field: str(value) for field, value in msgspec.to_builtins(SEND).items()}, "m": "true"},
        struct.pack(">iiiii", INT_MAX, 0, 0, 0, INT_MAX) + bytes(20),
    ),
    "a filter of ten thousand brackets": (
        RequestCode.PULL_MESSAGE,
        {
            **{field: str(value) for field, value in msgspec.to_builtins(PULL).items()},
            "subscription": "(" * 10_000 + "a = 1" + ")" * 10_000,
            "expressionType": "SQL92",
        },
        b"",
    ),
    "a heartbeat of fifty thousand groups": (
        RequestCode.HEART_BEAT,
        {},
        encode_body(
            HeartbeatData(
                client_id="giant", producer_data_set=[ProducerData(group_name=f"g{n}") for n in range(50_000)]
            )
        ),
    ),
    "locks on a hundred thousand queues": (
        RequestCode.LOCK_BATCH_MQ,
        {},
        msgspec.json.encode(
            {
                "consumerGroup": "g",
                "clientId": "c",
                "mqSet": [{"topic": "Orders", "brokerName": "broker-a", "queueId": n} for n in range(100_000)],
            }
        ),
    ),
    "JSON of a million brackets": (RequestCode.HEART_BEAT, {}, b"[" * 1_000_000),
    "JSON with a number of a million digits": (RequestCode.HEART_BEAT, {}, b'{"clientID":' + b"9" * 1_000_000 + b"}"),
}


@pytest.mark.parametrize("name", GIANT_COUNTS)
async def test_a_giant_count_is_answered_soon_and_costs_no_memory(tmp_path: Path, name: str) -> None:
    code, fields, body = GIANT_COUNTS[name]
    async with attacked(tmp_path) as (_, broker, _):
        await broker.ask(RequestCode.SEND_MESSAGE_V2, SEND, b"one")
        before = peak_kib()
        await broker.ask(code, fields, body)  # with whatever; within the peer's ten seconds
        assert peak_kib() - before < ALLOWED_KIB


# Names that are paths

PATHS = [name for name in NASTY if name] + [
    "..%2f..%2ffuzz_escape",
    "C:\\fuzz_escape",
    "~/fuzz_escape",
    "\0",
    "a/../../b",
]


def named(name: str) -> list[tuple[int, dict[str, str], bytes]]:
    """Return every request that makes a file or a folder after a name it carries."""
    send = {field: str(value) for field, value in msgspec.to_builtins(SEND).items()}
    pull = {field: str(value) for field, value in msgspec.to_builtins(PULL).items()}
    return [
        (RequestCode.SEND_MESSAGE_V2, {**send, "b": name}, b"x"),
        (RequestCode.SEND_MESSAGE_V2, {**send, "c": name, "b": "NewTopic"}, b"x"),
        (RequestCode.SEND_MESSAGE_V2, {**send, "i": f"REAL_TOPIC\x01{name}\x02DELAY\x011\x02"}, b"x"),
        (RequestCode.PULL_MESSAGE, {**pull, "consumerGroup": name}, b""),
        (RequestCode.PULL_MESSAGE, {**pull, "topic": name}, b""),
        (
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            {
                "topic": name,
                "defaultTopic": "TBW102",
                "readQueueNums": "1",
                "writeQueueNums": "1",
                "perm": "6",
                "topicFilterType": "SINGLE_TAG",
                "topicSysFlag": "0",
                "order": "false",
            },
            b"",
        ),
        (RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": name}, b""),
        (
            RequestCode.HEART_BEAT,
            {},
            msgspec.json.encode(
                {
                    "clientID": name,
                    "producerDataSet": [{"groupName": name}],
                    "consumerDataSet": [
                        {
                            "groupName": name,
                            "consumeType": "CONSUME_PASSIVELY",
                            "messageModel": "CLUSTERING",
                            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                            "subscriptionDataSet": [],
                        }
                    ],
                }
            ),
        ),
        (
            RequestCode.CONSUMER_SEND_MSG_BACK,
            {"offset": "0", "group": name, "delayLevel": "1", "originMsgId": "x", "originTopic": name},
            b"",
        ),
        (
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            {},
            msgspec.json.encode({"groupName": name, "consumeEnable": True, "retryQueueNums": 1}),
        ),
        (RequestCode.UPDATE_CONSUMER_OFFSET, {**pull, "consumerGroup": name, "commitOffset": "1"}, b""),
        (RequestCode.PUT_KV_CONFIG, {"namespace": name, "key": name, "value": name}, b""),
    ]


@pytest.mark.parametrize("name", PATHS, ids=lambda name: ascii(name)[:30])
async def test_no_name_leads_out_of_the_store(tmp_path: Path, name: str) -> None:
    home = tmp_path / "deep" / "inside" / "home"
    home.mkdir(parents=True)
    async with attacked(home) as (running, broker, namesrv):
        await broker.ask(RequestCode.SEND_MESSAGE_V2, SEND, b"one")
        for code, fields, body in named(name):
            peer = namesrv if code == RequestCode.PUT_KV_CONFIG else broker
            await peer.ask(code, fields, body)
        await asyncio.to_thread(running.broker.tables.offsets.save)

    homes = home / "broker-a", home / "namesrv"
    known = {*homes, *homes[0].parents}
    outside = [path for path in tmp_path.rglob("*") if path not in known and not {*homes} & {*path.parents}]
    assert outside == []
    assert not Path("/fuzz_escape").exists()
    queues = {path.name for path in (homes[0] / "consumequeue").iterdir()}
    assert all(re.fullmatch(r"[%|a-zA-Z0-9_-]+", topic) for topic in queues), queues


# Log injection

FORGED = "9999-01-01 00:00:00,000 ERROR hanabi.broker: forged"


def test_no_name_forges_a_line_of_the_log_or_colours_the_terminal(tmp_path: Path) -> None:
    """Text in places that are logged: topics, groups, client ids, addresses, remarks, files that are asked for."""
    (tmp_path / "broker.conf").write_text(
        "brokerName=broker-a\nmappedFileSizeCommitLog=1048576\nmappedFileSizeConsumeQueue=20000\n"
        "maxHashSlotNum=100\nmaxIndexNum=400\n"
    )
    command = [sys.executable, "-m", "hanabi", "serve", "-c", str(tmp_path / "broker.conf"), "--log-level", "debug"]
    where = ["--home", str(tmp_path / "home"), "--namesrv-port", "0", "--broker-port", "0"]
    server = ServerProcess("hanabi serve", [*command, *where], tmp_path / "console.log")

    async def main(namesrv_address: str, broker_address: str) -> None:
        broker, namesrv = await Peer.connect(broker_address), await Peer.connect(namesrv_address)
        for nasty in (
            f"x\n{FORGED}",
            f"x\r\n{FORGED}",
            f"\x1b[2J\x1b[31m{FORGED}",
            f"x\u2028{FORGED}",
            f"x\x85{FORGED}",
        ):
            for code, fields, body in named(nasty):
                await (namesrv if code == RequestCode.PUT_KV_CONFIG else broker).ask(code, fields, body)
            header = {
                "brokerName": nasty,
                "brokerAddr": nasty,
                "clusterName": nasty,
                "haServerAddr": nasty,
                "brokerId": "0",
            }
            await namesrv.ask(RequestCode.REGISTER_BROKER, header, b"{}")
            await namesrv.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": nasty})
            await broker.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": nasty, "producerGroup": nasty})
        await broker.close()
        await namesrv.close()

    try:
        namesrv_address = server.wait_for_line("ready namesrv ").split()[-1]
        asyncio.run(main(namesrv_address, server.wait_for_line("ready broker ").split()[-1]))
    finally:
        server.stop()
    logs = [tmp_path / "console.log", *(tmp_path / "home").rglob("*.log")]
    for log in logs:
        text = log.read_bytes().decode()
        assert "\x1b" not in text
        assert not [line for line in text.splitlines() if line.startswith(FORGED)]
    assert any("forged" in log.read_text() for log in logs)  # so it was logged, and did no harm
