"""The standard scenario: two brokers behind proxies, one of which hangs."""

from pathlib import Path

import pytest

from hanabi.client.config import ClientConfig
from hanabi.client.producer.producer import Producer
from hanabi.errors import SendFailed
from hanabi.message import Message
from hanabi.testing.proxied import BROKERS, proxied_cluster


async def test_clients_reach_both_brokers_through_their_proxies_and_a_hung_one_does_not_answer(tmp_path: Path) -> None:
    async with proxied_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        config = ClientConfig(namesrv=cluster.namesrv)
        async with Producer("g", config=config, retries=0) as producer:
            queues = {queue.broker_name: queue for queue in await producer.queues("T")}
            assert sorted(queues) == sorted(BROKERS)
            for queue in queues.values():
                await producer.send(Message("T", b"through the proxy"), queue=queue)
            assert all(proxy.connections for proxy in cluster.proxies.values())
            cluster.hang("broker-b")
            with pytest.raises(SendFailed):
                await producer.send(Message("T", b"late"), queue=queues["broker-b"], timeout=0.3)
            await producer.send(Message("T", b"in time"), queue=queues["broker-a"])
            cluster.wake("broker-b")
            await producer.send(Message("T", b"back"), queue=queues["broker-b"])
