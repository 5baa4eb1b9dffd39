"""Tests of what a slave copies besides the log, from a broker of ours, from none, and from one that is wrong."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.errors import ConnectError
from hanabi.remoting.transport.connector import Connector
from hanabi.replication.metadata import MetadataSync
from hanabi.replication.rules.copied_tables import Offsets, copied_members, merged_offsets
from hanabi.testing.cluster import running_broker
from hanabi.testing.topics import create_topic
from hanabi.testing.waiting import eventually
from hanabi.wire.bodies.groups import SubscriptionGroupTable
from hanabi.wire.bodies.topics import DataVersion
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command, decode_command, encode_head
from hanabi.wire.header import Header
from tests.replication.tables import Tables

OFFSETS = st.dictionaries(
    st.sampled_from(["T@g", "U@g"]), st.dictionaries(st.integers(0, 2), st.integers(0, 5), max_size=3), max_size=2
)


def at(offsets: Offsets, key: str, queue_id: int) -> int | None:
    return offsets.get(key, {}).get(queue_id)


@given(OFFSETS, OFFSETS, OFFSETS)
def test_what_the_master_has_changed_wins_and_else_the_larger_offset(
    local: Offsets, master: Offsets, seen: Offsets
) -> None:
    taken = merged_offsets(local, master, seen)
    for key, queues in master.items():
        for queue_id, offset in queues.items():
            here, now = at(local, key, queue_id), at(taken, key, queue_id)
            result = here if now is None else now
            if at(seen, key, queue_id) != offset:
                assert result == offset
            else:
                assert result == max(offset, -1 if here is None else here)
    assert all(key in master for key in taken)


def test_a_reset_at_the_master_goes_back_at_the_slave_and_a_commit_at_the_slave_stays() -> None:
    assert merged_offsets({"T@g": {0: 9}}, {"T@g": {0: 5}}, {"T@g": {0: 8}}) == {"T@g": {0: 5}}
    assert merged_offsets({"T@g": {0: 9}}, {"T@g": {0: 5}}, {"T@g": {0: 5}}) == {}


async def test_the_tables_of_a_broker_of_ours_are_copied_and_only_when_they_change(tmp_path: Path) -> None:
    connector, tables = Connector(), Tables()
    async with running_broker(tmp_path) as broker:
        await create_topic(broker, "Orders", queues=3)
        commit = {"consumerGroup": "g", "topic": "Orders", "queueId": "1", "commitOffset": "0"}
        await connector.request(broker.address, RequestCode.UPDATE_CONSUMER_OFFSET, commit)
        sync = MetadataSync(connector, tables)
        assert await sync.copy(broker.address)
        assert tables.topics.topic_config_table["Orders"].read_queue_nums == 3
        assert "TOOLS_CONSUMER" in tables.groups.subscription_group_table
        assert tables.committed == {"Orders@g": {1: 0}}
        assert await sync.copy(broker.address)
        assert sorted(tables.taken) == ["groups", "offsets", "topics"]
        await create_topic(broker, "More", queues=1)
        assert await sync.copy(broker.address)
        assert tables.taken[3:] == ["topics"]
        assert sync.rounds == 3
    await connector.close()


class Scripted:
    """A master that answers from a table; without an answer it cannot be reached."""

    def __init__(self, answers: Mapping[RequestCode, Command]) -> None:
        self.answers, self.asked = answers, list[int]()

    async def request(
        self,
        address: str,
        code: int,
        header: Header | None = None,
        *,
        timeout: float,  # noqa: ASYNC109
    ) -> Command:
        self.asked.append(code)
        if (answer := self.answers.get(RequestCode(code))) is None:
            raise ConnectError(f"{address}: no")
        return answer


def answer(body: bytes = b"", code: int = ResponseCode.SUCCESS) -> Command:
    return decode_command((encode_head(code=code, opaque=1, body_bytes=len(body)) + body)[4:])


async def test_one_request_that_fails_does_not_stop_the_others_and_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tables = Tables()
    master = Scripted(
        {
            RequestCode.GET_ALL_CONSUMER_OFFSET: answer(b'{"offsetTable":{"T@g":{0:7}}}'),
            RequestCode.GET_ALL_DELAY_OFFSET: answer(code=ResponseCode.SYSTEM_ERROR),
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: answer(b"garbage"),
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: answer(code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
            RequestCode.GET_TIMER_METRICS: answer(code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
            RequestCode.GET_TIMER_CHECK_POINT: answer(code=ResponseCode.SYSTEM_ERROR),  # the timer is switched off
        }
    )
    sync = MetadataSync(master, tables)
    for _ in range(3):
        assert not await sync.copy("192.0.2.1:10911")
    assert tables.committed == {"T@g": {0: 7}}
    assert len([line for line in caplog.messages if "could not be copied" in line]) == 2
    assert master.asked.count(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE) == 1  # a 4.9 master does not know it
    assert master.asked.count(RequestCode.GET_TIMER_METRICS) == 1


class BeginsLate(Tables):
    """The tables of a slave whose log begins while they are copied for the first time."""

    def take_groups(self, table: SubscriptionGroupTable) -> None:
        super().take_groups(table)
        self.log_bytes = 100


async def test_a_slave_whose_log_begins_during_the_first_copy_soon_asks_for_the_ends_of_queues() -> None:
    tables = BeginsLate()
    tables.endless = []
    not_supported = answer(code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    master = Scripted(
        {
            RequestCode.GET_ALL_TOPIC_CONFIG: answer(b'{"topicConfigTable":{"T":{"topicName":"T"}}}'),
            RequestCode.GET_ALL_CONSUMER_OFFSET: answer(b"{}"),
            RequestCode.GET_ALL_DELAY_OFFSET: answer(code=ResponseCode.SYSTEM_ERROR),
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: answer(
                b'{"subscriptionGroupTable":{"g":{"groupName":"g"}},"dataVersion":{"counter":1}}'
            ),
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: not_supported,
            RequestCode.GET_TIMER_METRICS: not_supported,
            RequestCode.GET_TIMER_CHECK_POINT: not_supported,
        }
    )
    sync = MetadataSync(master, tables, interval_seconds=3_600)
    sync.follow("192.0.2.1:10911")
    copying = asyncio.create_task(sync.run())
    await eventually(lambda: "queue ends" in tables.taken, "it has asked for the ends of queues")
    assert sync.rounds == 2
    copying.cancel()
    await asyncio.wait([copying])


@pytest.mark.parametrize("body", [b"", b"{}", b'{"topicConfigTable":{},"dataVersion":{"counter":5}}'])
async def test_a_master_without_any_topic_takes_none_from_its_slave(body: bytes) -> None:
    tables = Tables()
    sync = MetadataSync(Scripted({RequestCode.GET_ALL_TOPIC_CONFIG: answer(body)}), tables)
    await sync.copy("192.0.2.1:10911")
    assert tables.taken == []


async def test_a_master_that_is_back_does_not_take_back_commits_that_its_slave_took_meanwhile() -> None:
    tables = Tables()
    answers = {RequestCode.GET_ALL_CONSUMER_OFFSET: answer(b'{"offsetTable":{"T@g":{0:7}}}')}
    sync = MetadataSync(Scripted(answers), tables)
    sync.follow("192.0.2.1:10911")
    await sync.copy("192.0.2.1:10911")
    sync.follow(None)
    tables.committed["T@g"][0] = 12
    sync.follow("192.0.2.1:10911")
    await sync.copy("192.0.2.1:10911")
    assert tables.committed == {"T@g": {0: 12}}
    answers[RequestCode.GET_ALL_CONSUMER_OFFSET] = answer(b'{"offsetTable":{"T@g":{0:3}}}')  # a reset
    await sync.copy("192.0.2.1:10911")
    assert tables.committed == {"T@g": {0: 3}}


def version(counter: int) -> DataVersion:
    return DataVersion(counter=counter, timestamp=counter)


def test_a_master_that_has_lost_its_file_takes_nothing_from_its_slave() -> None:
    local, master = {"a": 1, "b": 2}, {"b": 3, "c": 4}
    assert copied_members(local, version(5), master, version(6)) == master
    assert copied_members(local, version(5), master, version(4)) == {"a": 1, "b": 3, "c": 4}
