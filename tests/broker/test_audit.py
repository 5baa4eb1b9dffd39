"""The audit log of a broker: refusals and changes over the wire, with the values before and after."""

import json
from pathlib import Path
from typing import Any

from hanabi.testing.waiting import eventually
from hanabi.wire.bodies.topics import TopicFilterType
from hanabi.wire.codes import RequestCode
from hanabi.wire.headers.acl import CreateAccessConfigHeader
from hanabi.wire.headers.topic import CreateTopicHeader, DeleteTopicHeader
from tests.broker.test_access_control import APP, OPERATOR, SEND, WRONG, asked, guarded, send_to

SECRETS = ("secret-of-orders", "secret-of-operator", "secret-of-attacker", "secret-of-the-new-one")


def create(topic: str, queues: int) -> CreateTopicHeader:
    return CreateTopicHeader(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=6,
        topic_filter_type=TopicFilterType.SINGLE_TAG,
    )


async def lines(home: Path, count: int) -> list[dict[str, Any]]:
    (path,) = home.rglob("audit.log")
    await eventually(lambda: path.read_bytes().count(b"\n") >= count, lambda: f"{count} lines: {path.read_text()}")
    text = path.read_text()
    assert not any(secret in text for secret in SECRETS)
    return [json.loads(each) for each in text.splitlines()]


async def test_each_refusal_is_a_line(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (cluster, peer):
        await asked(peer, SEND, send_to("Orders"), APP)  # allowed: no line
        await asked(peer, SEND, send_to("Orders"), None)
        await asked(peer, SEND, send_to("Orders"), WRONG)
        await asked(peer, SEND, send_to("Own"), APP)
        await asked(peer, RequestCode.UPDATE_BROKER_CONFIG, None, APP, b"brokerPermission=6")
        found = await lines(tmp_path, 4)
        assert [(each["verdict"], each.get("account"), each["request"]) for each in found] == [
            ("refused", None, "SEND_MESSAGE_V2"),
            ("refused", "orders-app", "SEND_MESSAGE_V2"),
            ("refused", "orders-app", "SEND_MESSAGE_V2"),
            ("refused", "orders-app", "UPDATE_BROKER_CONFIG"),
        ]
        assert all(each["address"] == "127.0.0.1" for each in found)
        assert found[2]["resources"] == ["Topic:Own"]
        assert found[2]["reason"] == "No default permission for topic:Own"
        control = cluster.broker.access_control
        assert control is not None
        assert control.refusals.count == 4


async def test_each_change_is_a_line_with_the_value_before(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (_, peer):
        for code, header, body in (
            (RequestCode.UPDATE_AND_CREATE_TOPIC, create("New", 4), b""),
            (RequestCode.UPDATE_AND_CREATE_TOPIC, create("New", 8), b""),
            (RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicHeader(topic="New"), b""),
            (RequestCode.UPDATE_BROKER_CONFIG, None, b"maxMessageSize=1048576\n"),
            (RequestCode.UPDATE_BROKER_CONFIG, None, b"rocketmqHome=/tmp/x\n"),
        ):
            await asked(peer, code, header, OPERATOR, body)
        account = CreateAccessConfigHeader(access_key="new-account", secret_key=SECRETS[-1], topic_perms="New=PUB")
        for _ in range(2):
            await asked(peer, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, account, OPERATOR, b"")
        made, changed, deleted, resized, refused, account_made, account_changed = await lines(tmp_path, 7)
        assert made["verdict"] == "done"
        assert made["account"] == "operator"
        assert "old" not in made
        assert made["new"]["readQueueNums"] == "4"
        assert changed["old"]["readQueueNums"] == 4
        assert changed["new"]["readQueueNums"] == "8"
        assert deleted["old"]["readQueueNums"] == 8
        assert deleted["resources"] == ["Topic:New"]
        assert resized["old"] == {"maxMessageSize": "4194304"}
        assert resized["new"] == {"body": {"maxMessageSize": "1048576"}}
        assert refused["verdict"] == "refused"  # a key that nobody may change
        assert account_made["new"]["secretKey"] == "(hidden)"
        assert "old" not in account_made
        assert account_changed["old"]["topicPerms"] == ["New=PUB"]


async def test_a_broker_without_an_audit_log_writes_none(tmp_path: Path) -> None:
    async with guarded(tmp_path, audit_enabled=False) as (_, peer):
        await asked(peer, SEND, send_to("Orders"), None)
    assert not list(tmp_path.rglob("audit.log"))
