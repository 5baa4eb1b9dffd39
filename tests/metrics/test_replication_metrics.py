"""Metrics of replication, of a pair of brokers."""

from pathlib import Path

import hanabi.aio
from hanabi.broker.broker import Broker
from hanabi.broker.replica.roles import BrokerRole
from hanabi.message import Message
from hanabi.metrics.replication_metrics import replication_lines
from hanabi.testing.topics import create_topic
from hanabi.testing.waiting import eventually
from tests.broker.replica.pairs import Pair, running_pair

SYNC = {"broker_role": BrokerRole.SYNC_MASTER}


def figures(broker: Broker) -> dict[str, float]:
    """Return the samples by name; of a family with labels, the last one."""
    lines = [line for text in replication_lines(broker) for line in text.splitlines() if not line.startswith("#")]
    return {line.split(" ")[0].split("{")[0]: float(line.rsplit(" ", 1)[1]) for line in lines}


async def send(pair: Pair, count: int) -> None:
    async with hanabi.aio.Producer("shop", namesrv=pair.namesrv) as producer:
        for _ in range(count):
            await producer.send(Message("Orders", b"x" * 100))


async def test_a_pair_shows_both_sides(tmp_path: Path) -> None:
    async with running_pair(tmp_path, master=SYNC) as pair:
        await create_topic(pair.master, "Orders", queues=1)
        await send(pair, 3)
        await pair.caught_up()
        end = pair.master.store.max_log_offset
        await eventually(lambda: figures(pair.master)["hanabi_replication_lag_bytes"] == 0, "it is acknowledged")
        of_master, of_slave = figures(pair.master), figures(pair.slave)
        assert of_master["hanabi_replication_slaves_in_sync"] == of_master["hanabi_replication_slaves_needed"] == 1
        assert "hanabi_replication_connected" not in of_master
        assert of_slave["hanabi_replication_connected"] == 1
        assert of_slave["hanabi_replication_received_bytes_total"] == end > 0
        assert of_slave["hanabi_replication_slaves_needed"] == 0
        await pair.master.master_side.master.stop()
        await eventually(lambda: figures(pair.slave)["hanabi_replication_connected"] == 0, "the slave notices")
        assert figures(pair.master)["hanabi_replication_slaves_in_sync"] == 0
