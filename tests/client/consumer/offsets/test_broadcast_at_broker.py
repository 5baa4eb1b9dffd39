"""Broadcasting members whose offsets are at the brokers: a new address changes nothing."""

from pathlib import Path
from typing import Any

import pytest

from hanabi.client.consumer.push.consumer import PushConsumer
from hanabi.errors import ConfigError
from hanabi.testing.cluster import running_cluster
from hanabi.testing.waiting import eventually
from tests.client.consumer.pushing import Inbox, committed, numbered, send

OPTIONS: dict[str, Any] = {"broadcasting": True, "broadcast_offsets": "broker", "consume_from": "first"}


async def test_a_member_goes_on_where_it_was_on_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_cluster(tmp_path / "cluster") as cluster:
        await cluster.create_topic("T")
        await send(cluster, numbered(10))
        async with (
            Inbox(cluster, "g", instance="a", **OPTIONS) as first,
            Inbox(cluster, "g", instance="b", **OPTIONS) as second,
        ):
            await eventually(lambda: len(first.messages) == len(second.messages) == 10)
        assert sorted(first.bodies) == sorted(second.bodies) == numbered(10), "each member gets all"
        await send(cluster, numbered(5, 10))
        monkeypatch.setenv("ROCKETMQ_OFFSETS_DIR", str(tmp_path / "empty"))  # nothing is left of the old machine
        monkeypatch.setattr("hanabi.client.config.local_address", lambda: "10.1.2.3")
        async with Inbox(cluster, "g", instance="a", **OPTIONS) as inbox:
            await eventually(lambda: len(inbox.messages) == 5)
        assert sorted(inbox.bodies) == numbered(5, 10)
        assert sum(committed(cluster, "g_broadcast_a").values()) == 15
        assert sum(committed(cluster, "g_broadcast_b").values()) == 10
        assert not (tmp_path / "empty").exists()


async def test_a_member_without_a_stable_name_is_refused(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        consumer = PushConsumer("g", config=cluster.config(), broadcasting=True, broadcast_offsets="broker")
        consumer.subscribe("T")
        consumer.listener(print)
        with pytest.raises(ConfigError, match="stable name"):
            await consumer.start()
    with pytest.raises(ConfigError, match='"file" or "broker"'):
        PushConsumer("g", broadcast_offsets="redis")
