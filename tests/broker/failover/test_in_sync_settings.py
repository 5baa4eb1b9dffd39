"""Settings about replicas in sync, in running brokers: learners, minInSyncReplicas, allAckInSyncStateSet."""

from pathlib import Path

import pytest

from hanabi import Message
from hanabi.aio import Producer
from hanabi.errors import MQError
from hanabi.testing.topics import create_topic
from hanabi.testing.waiting import eventually
from tests.broker.replica.replicas import SAFE, acks_of, running_replicas
from tests.broker.replica.test_controller_mode import sent


async def test_a_learner_copies_everything_but_is_never_in_sync_and_never_a_master(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_replicas(tmp_path, 1) as replicas:
        learner = await replicas.start(2, async_learner=True)
        await create_topic(replicas.master, "T")
        await sent(replicas.namesrv, 10)
        await replicas.same_logs()
        assert learner.store.max_log_offset > 0
        acks = acks_of(replicas.brokers[1])
        await eventually(lambda: 2 in acks.replicas and acks.replicas[2].acked > 0, "the learner acknowledges")
        assert acks.sync_set.members == {1}
        await replicas.stop(1)
        await eventually(lambda: "has no master" in caplog.text, "the controller has looked for a successor")
        assert learner.settings.is_slave
        await replicas.start(1)
        assert not replicas.brokers[1].settings.is_slave
        await replicas.same_logs()


async def test_sends_are_refused_and_nothing_is_stored_while_the_set_is_too_small(tmp_path: Path) -> None:
    async with running_replicas(tmp_path, 2, **SAFE) as replicas:
        await replicas.in_sync(1, 2)
        await create_topic(replicas.master, "T")
        await sent(replicas.namesrv, 3)
        await replicas.stop(2)
        await replicas.in_sync(1)
        end = replicas.master.store.max_log_offset
        async with Producer("p", namesrv=replicas.namesrv, retries=0) as producer:
            with pytest.raises(MQError, match="1 of 2 replicas are in sync"):
                await producer.send(Message("T", b"refused"))
        assert replicas.master.store.max_log_offset == end
        await replicas.start(2, **SAFE)
        await replicas.in_sync(1, 2)
        await sent(replicas.namesrv, 3)


async def test_a_master_alone_takes_messages_where_one_replica_is_enough(tmp_path: Path) -> None:
    settings = {"all_ack_in_sync_state_set": True, "min_in_sync_replicas": 1}
    async with running_replicas(tmp_path, 2, **settings) as replicas:
        await replicas.in_sync(1, 2)
        await create_topic(replicas.master, "T")
        await sent(replicas.namesrv, 3)
        await replicas.stop(2)
        await replicas.in_sync(1)
        assert len(await sent(replicas.namesrv, 3)) == 3
        await replicas.start(2, **settings)
        await replicas.in_sync(1, 2)
        await replicas.same_logs()


async def test_readers_see_nothing_that_a_replica_in_sync_lacks(tmp_path: Path) -> None:
    async with running_replicas(tmp_path, 2, **SAFE, heartbeat_interval_ms=100) as replicas:
        await replicas.in_sync(1, 2)
        await create_topic(replicas.master, "T")
        await sent(replicas.namesrv, 4)
        master = replicas.master
        store, acks = master.store, acks_of(master)
        ends = [store.reader.max_offset("T", queue_id) for queue_id in store.queues_of("T")]
        assert sum(ends) == 4
        assert acks.confirmed == store.max_log_offset
        slave = replicas.slaves()[0]
        await eventually(
            lambda: slave.store.reader.confirmed >= store.max_log_offset, "the slave's readers see everything"
        )
