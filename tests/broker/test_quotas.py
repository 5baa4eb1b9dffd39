"""Quotas of accounts at a running broker: slowed down, refused, counted, and told once; the others go on."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hanabi.client.config import Credentials
from hanabi.errors import ConfigError
from hanabi.testing.cluster import Cluster
from hanabi.testing.waiting import eventually
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.headers.topic import CreateTopicHeader, DeleteTopicHeader
from tests.broker.talk import Peer
from tests.broker.test_access_control import APP, OPERATOR, PULL, RULES, SEND, asked, guarded, pull_from, send_to

CREATE, DELETE = RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.DELETE_TOPIC_IN_BROKER
LIMITED = "orders-app"


@asynccontextmanager
async def limited(home: Path, **quota: int) -> AsyncIterator[tuple[Cluster, Peer]]:
    """Run a broker where one account has this quota."""
    async with guarded(home, account_quotas=json.dumps({LIMITED: quota}) if quota else "") as (cluster, peer):
        yield cluster, peer


def metering(cluster: Cluster) -> Any:
    assert cluster.broker.access_control is not None
    return cluster.broker.access_control.metering


async def configure(peer: Peer, quotas: object, by: Credentials = OPERATOR) -> int:
    body = f"accountQuotas={json.dumps(quotas) if quotas else ''}".encode()
    return (await asked(peer, RequestCode.UPDATE_BROKER_CONFIG, None, by, body)).code


async def test_without_quotas_nothing_is_counted(tmp_path: Path) -> None:
    async with limited(tmp_path) as (cluster, peer):
        assert (await asked(peer, SEND, send_to("Orders"), APP)).code == 0
        assert not metering(cluster).is_on
        assert metering(cluster).meters == {}


async def test_an_account_over_its_quota_is_slowed_down_and_the_others_are_not(tmp_path: Path) -> None:
    async with limited(tmp_path, requestsPerSecond=20) as (cluster, peer):
        answers = [asyncio.ensure_future(asked(peer, SEND, send_to("Orders"), APP)) for _ in range(30)]
        other = await Peer.connect(cluster.broker.address)
        for _ in range(100):
            assert (await asked(other, SEND, send_to("Own"), OPERATOR)).code == 0
        assert {answer.code for answer in await asyncio.gather(*answers)} == {0}
        meter = metering(cluster).meters[LIMITED]
        assert meter.requests == 30
        assert meter.delayed["requestsPerSecond"] >= 1
        assert not meter.refused
        assert set(metering(cluster).meters) == {LIMITED}
        await other.close()


async def test_an_account_that_owes_more_than_a_second_is_refused_with_codes_that_clients_retry(
    tmp_path: Path,
) -> None:
    async with limited(tmp_path, bytesInPerSecond=100) as (cluster, peer):
        assert (await asked(peer, SEND, send_to("Orders"), APP, bytes(1_000_000))).code == 0  # owes hours from now on
        refused = await asked(peer, SEND, send_to("Orders"), APP)
        assert refused.code == ResponseCode.SYSTEM_BUSY
        assert refused.remark == f"account {LIMITED} is over its quota: bytesInPerSecond = 100 (accountQuotas)"
        again = await Peer.connect(cluster.broker.address)  # the account, not the connection
        assert (await asked(again, PULL, pull_from("Orders", "readers"), APP, b"")).code == ResponseCode.FLOW_CONTROL
        assert (await asked(again, SEND, send_to("Own"), OPERATOR)).code == 0
        control = cluster.broker.access_control
        assert control is not None
        assert control.audit is not None
        path = control.audit.log.path
        await eventually(lambda: path.exists() and "over its quota" in path.read_text())
        assert metering(cluster).meters[LIMITED].refused["bytesInPerSecond"] == 2
        assert path.read_text().count("over its quota") == 1  # once a minute
        await again.close()


async def test_bytes_of_answers_count(tmp_path: Path) -> None:
    async with limited(tmp_path, bytesOutPerSecond=100) as (cluster, peer):
        assert (await asked(peer, SEND, send_to("Orders"), OPERATOR, bytes(100_000))).code == 0
        found = await asked(peer, PULL, pull_from("Orders", "readers"), APP, b"")
        assert (found.code, len(found.body) > 100_000) == (0, True)
        assert (await asked(peer, PULL, pull_from("Orders", "readers"), APP, b"")).code == ResponseCode.FLOW_CONTROL
        assert metering(cluster).meters[LIMITED].bytes_out == len(found.body)


async def test_a_connection_over_the_number_is_refused_until_another_closes(tmp_path: Path) -> None:
    async with limited(tmp_path, connections=1) as (cluster, peer):
        other = await Peer.connect(cluster.broker.address)
        for _ in range(3):
            assert (await asked(peer, SEND, send_to("Orders"), APP)).code == 0
        assert (await asked(other, SEND, send_to("Orders"), APP)).code == ResponseCode.SYSTEM_BUSY
        await peer.close()
        async with asyncio.timeout(60):
            while (await asked(other, SEND, send_to("Orders"), APP)).code != 0:
                pass  # each answer is a turn of the loop
        await other.close()


def topic(name: str) -> CreateTopicHeader:
    return CreateTopicHeader(
        topic=name,
        default_topic="TBW102",
        read_queue_nums=1,
        write_queue_nums=1,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        topic_sys_flag=0,
        order=False,
    )


async def test_topics_over_the_number_are_not_created_by_command_or_by_a_send(tmp_path: Path) -> None:
    text = RULES.replace("- Secrets=PUB\n", "- First=PUB\n  - Second=PUB\n  - Third=PUB\n")
    quotas = json.dumps({"operator": {"topics": 1}, LIMITED: {"topics": 1}})
    async with guarded(tmp_path, text, account_quotas=quotas) as (cluster, peer):
        assert (await asked(peer, CREATE, topic("One"), OPERATOR, b"")).code == 0
        assert (await asked(peer, CREATE, topic("One"), OPERATOR, b"")).code == 0  # a change creates none
        refused = await asked(peer, CREATE, topic("Two"), OPERATOR, b"")
        assert (refused.code, refused.remark) == (
            16,
            "account operator is over its quota: topics = 1 (accountQuotas)",
        )
        assert (await asked(peer, SEND, send_to("First"), APP)).code == 0  # creates it
        assert (await asked(peer, SEND, send_to("Second"), APP)).code == 16
        assert (await asked(peer, SEND, send_to("First"), APP)).code == 0
        assert cluster.broker.tables.topics.newest("Second") is None
        assert (await asked(peer, DELETE, DeleteTopicHeader(topic="One"), OPERATOR, b"")).code == 0
        await eventually(lambda: cluster.broker.tables.topics.newest("One") is None)
        assert (await asked(peer, CREATE, topic("Two"), OPERATOR, b"")).code == 0
    kept = json.loads((tmp_path / "broker-a" / "config" / "createdTopics.json").read_text())
    assert kept == {"First": LIMITED, "Two": "operator"}


async def test_an_operator_changes_quotas_while_the_broker_runs_and_no_other_account_can(tmp_path: Path) -> None:
    async with limited(tmp_path) as (cluster, peer):
        assert await configure(peer, {"*": {"requestsPerSecond": 100_000}}, APP) == 16
        assert await configure(peer, {LIMITED: {"requestsPerMinute": 1}}) != 0
        assert not metering(cluster).is_on
        assert await configure(peer, {LIMITED: {"bytesInPerSecond": 10}}) == 0
        assert (await asked(peer, SEND, send_to("Orders"), APP, bytes(10_000))).code == 0
        assert (await asked(peer, SEND, send_to("Orders"), APP)).code == ResponseCode.SYSTEM_BUSY
        other = await Peer.connect(cluster.broker.address)
        assert await configure(other, {}) == 0
        assert (await asked(other, SEND, send_to("Orders"), APP)).code == 0
        await other.close()


async def test_the_fast_path_charges_as_the_handlers_do(tmp_path: Path) -> None:
    async with limited(tmp_path, requestsPerSecond=10_000) as (cluster, peer):
        before = sum(counts.taken for counts in cluster.broker.fast_path_counts)
        for _ in range(5):
            assert (await asked(peer, SEND, send_to("Orders"), APP)).code == 0
        for _ in range(3):
            assert (await asked(peer, PULL, pull_from("Orders", "readers"), APP, b"")).code == 0
        meter = metering(cluster).meters[LIMITED]
        assert meter.requests == 8
        assert meter.bytes_out > 0
        if cluster.broker.fast_path_counts:
            assert sum(counts.taken for counts in cluster.broker.fast_path_counts) > before


def test_quotas_need_access_control(tmp_path: Path) -> None:
    from hanabi.broker.config import read_broker_config

    path = tmp_path / "broker.conf"
    path.write_text('accountQuotas={"*":{"connections":1}}\n')
    with pytest.raises(ConfigError, match="accountQuotas needs aclEnable"):
        read_broker_config(path)
