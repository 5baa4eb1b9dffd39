"""An embedded cluster: a name server and a broker in a thread of this process, for tests with or without asyncio.

with embedded_cluster(tmp_path) as cluster:
    producer = hanabi.Producer("orders", namesrv=cluster.namesrv)
    cluster.clock.advance(minutes=10)          messages that are due until then are delivered now
    cluster.messages("Orders")                 all messages of a topic, without a consumer
"""

from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from hanabi.broker.broker import Broker
from hanabi.client.config import ClientConfig
from hanabi.message import StoredMessage
from hanabi.testing.clock import MovableClock
from hanabi.testing.cluster import Cluster, running_cluster, small_store
from hanabi.testing.threads import Running, in_thread
from hanabi.wire.message.inner_batch import unwrapped
from hanabi.wire.message.stored import to_messages

T = TypeVar("T")
_LOG_FILE_BYTES = 8 << 20  # room for the largest message that brokers accept by default, 4 MiB


class EmbeddedCluster:
    """A running cluster for tests. Any thread may call it.

    `namesrv` is the address for clients, `clock` the brokers' time of day.
    """

    def __init__(self, running: Running[Cluster], clock: MovableClock) -> None:
        self._running, self.clock = running, clock
        self.cluster, self.namesrv, self.address = running.it, running.it.namesrv, running.it.address

    def config(self, **options: Any) -> ClientConfig:
        """Make the configuration of a client of this cluster, with *options* in place of the defaults."""
        return self.cluster.config(**options)

    def create_topic(self, topic: str, *, queues: int = 4) -> str:
        """Create a topic, for example before a consumer subscribes to it. A send creates a missing topic by itself."""
        return self.run(self.cluster.create_topic(topic, queues=queues))

    def messages(self, topic: str) -> list[StoredMessage]:
        """Read all messages of *topic*, queue by queue. Messages that still wait for their time are not in it."""
        return self._running.do(lambda cluster: [each for broker in cluster.brokers for each in _read(broker, topic)])

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* on the event loop of the cluster and return its result."""
        return self._running.run(work)


@contextmanager
def embedded_cluster(home: Path, **settings: Any) -> Iterator[EmbeddedCluster]:
    """Run a cluster with its files in *home*. *settings* are those of `running_cluster`, for example
    `auto_create_topic=False`."""
    clock = MovableClock()
    settings = {"store": partial(small_store, commit_log_segment_bytes=_LOG_FILE_BYTES), "now_ms": clock, **settings}
    with in_thread(running_cluster(home, **settings)) as running:
        clock.on_move = lambda: running.do(_look_again)
        yield EmbeddedCluster(running, clock)


def _look_again(cluster: Cluster) -> None:
    for broker in cluster.brokers:
        broker.services.clock_moved()


def _read(broker: Broker, topic: str) -> Iterator[StoredMessage]:
    name, store = broker.settings.broker.broker_name, broker.store
    for queue_id in store.queues_of(topic):
        offset = store.reader.min_offset(topic, queue_id)
        while offset < store.reader.max_offset(topic, queue_id):
            found = store.get(topic, queue_id, offset, 32)
            messages, error = to_messages(b"".join(found.slices), name)
            if error is not None:
                raise error
            yield from unwrapped(messages, offset)[0]
            offset = found.next_offset
