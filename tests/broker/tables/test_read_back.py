"""Whatever a broker may be asked to keep, it reads again at its next start: its own files have no bounds of a frame."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.broker.config import BrokerConfig
from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.broker.settings import Settings
from hanabi.broker.tables.groups import Groups
from hanabi.broker.tables.topics import Topics
from hanabi.broker.tables.versioned_table import Content, VersionedTable
from hanabi.client.consumer.offsets.file_format import decode_offsets, encode_offsets
from hanabi.message import MessageQueue
from hanabi.store.config import StoreConfig
from hanabi.store.inspection.config_files import read_config_files
from hanabi.store.inspection.home import StoreHome
from hanabi.testing.clock import ManualClock
from hanabi.testing.cluster import running_broker
from hanabi.wire.bodies.groups import SubscriptionGroupConfig
from hanabi.wire.bodies.heartbeat import HeartbeatData
from hanabi.wire.bodies.topics import DataVersion, TopicConfig
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import encode_body
from tests.broker.clients.people import a_consumer, subscribed
from tests.broker.talk import Peer, connected

BRACES = 60_000


def settings(**broker: object) -> Settings:
    return Settings(BrokerConfig(broker_name="broker-a", **broker), StoreConfig())  # type: ignore[arg-type]


async def succeed(peer: Peer, code: RequestCode, body: bytes) -> None:
    reply = await peer.ask(code, body=body)
    assert reply.code == ResponseCode.SUCCESS, reply.remark


@pytest.mark.parametrize("text", ["{" * BRACES, "," * BRACES, "{1:", '","$ref":"$', "\\" * 100, "\x00\ud7ff\U0010ffff"])
async def test_a_broker_starts_again_whatever_the_attributes_of_its_groups_are(tmp_path: Path, text: str) -> None:
    groups = [SubscriptionGroupConfig(group_name=f"g{i}", attributes={text[:99]: text, "b": "c"}) for i in range(3)]
    async with running_broker(tmp_path) as broker, connected(broker.address) as peer:
        for group in groups:
            await succeed(peer, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, encode_body(group))
    async with running_broker(tmp_path) as broker:
        assert [broker.tables.groups.known(group.group_name) for group in groups] == groups


async def test_an_attribute_whose_name_is_a_reference_of_fastjson_is_only_a_name(tmp_path: Path) -> None:
    body = rb'{"groupName":"g","attributes":{"\u0024ref":"$.dataVersion"}}'
    async with running_broker(tmp_path) as broker, connected(broker.address) as peer:
        await succeed(peer, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body)
    async with running_broker(tmp_path) as broker:
        group = broker.tables.groups.known("g")
        assert group is not None
        assert group.attributes == {"$ref": "$.dataVersion"}


async def test_a_broker_starts_again_whatever_literals_its_consumers_filter_by(tmp_path: Path) -> None:
    async with running_broker(tmp_path, filtering()) as broker, connected(broker.address) as peer:
        for number in range(3):
            filtered = subscribed("T", f"a = '{'{' * BRACES}'", kind="SQL92", version=5)
            beat = HeartbeatData(client_id="c", consumer_data_set=[a_consumer(f"g{number}", filtered)])
            async with asyncio.timeout(60):
                while len(broker.tables.filters) <= number:  # long expressions wait for a later heartbeat
                    await succeed(peer, RequestCode.HEART_BEAT, encode_body(beat))
                    await asyncio.sleep(0.05)
    async with running_broker(tmp_path, filtering()) as broker:
        assert len(broker.tables.filters) == 3


def filtering() -> BrokerConfig:
    return BrokerConfig(broker_name="broker-a", property_filter_enabled=True)


def nothing(_: bytes) -> Content[TopicConfig]:
    return Content(DataVersion(), {})


def test_a_table_of_111_000_topics_is_read(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    table: VersionedTable[TopicConfig] = VersionedTable(path, "topicConfigTable", nothing, ManualClock())
    table.change({f"Topic{number}": TopicConfig(topic_name=f"Topic{number}") for number in range(111_000)})
    assert len(Topics(path, settings(topics_max=200_000), ManualClock())) >= 111_000


@given(attributes=st.dictionaries(st.text(), st.text()))
def test_any_attributes_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, attributes: dict[str, str]
) -> None:
    path = tmp_path_factory.mktemp("groups") / "subscriptionGroup.json"
    group = SubscriptionGroupConfig(group_name="g", attributes=attributes)
    Groups(path, settings(), ManualClock()).update(group)
    assert Groups(path, settings(), ManualClock()).known("g") == group


@pytest.mark.parametrize("topic", ["T", "{1:", ',1:"', "\\", '"$ref":'])
def test_offsets_of_any_name_are_read(tmp_path: Path, topic: str) -> None:
    path = tmp_path / "consumerOffset.json"
    offsets = ConsumerOffsets(path)
    offsets.commit("g", topic, 0, 5)
    offsets.commit("g", topic, 1, 7)
    offsets.save()
    path.with_suffix(".marks").unlink()
    assert ConsumerOffsets(path).of("g", topic) == {0: 5, 1: 7}


@pytest.mark.long
def test_offsets_of_200_000_queues_are_read_and_no_problem_for_the_inspection(tmp_path: Path) -> None:
    path = tmp_path / "config" / "consumerOffset.json"
    offsets = ConsumerOffsets(path)
    for number in range(200_000):
        offsets.commit("g", f"T{number % 100}", number, number)
    offsets.save()
    path.with_suffix(".marks").unlink()
    assert len(ConsumerOffsets(path)) == 200_000
    assert [file.problem for file in read_config_files(StoreHome(tmp_path, tmp_path)) if file.name == path.name] == [
        None
    ]


def test_a_client_reads_local_offsets_of_120_000_queues() -> None:
    offsets = {MessageQueue("Orders", "broker-a", number): number for number in range(120_000)}
    assert decode_offsets(encode_offsets(offsets)) == offsets
