"""Lag of groups by topic: from brokers, or from the tables in the files of a store.

A group's lag in a queue is the distance from its offset to the end of the queue. Queues in which a group has no offset
may not be its own, and are not counted.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hanabi.client.blocking.loop_thread import LoopThread
from hanabi.client.cluster.core import Core
from hanabi.client.cluster.queue_access import QueueAccess
from hanabi.errors import RemoteProtocolError, StoreError
from hanabi.message import MessageQueue
from hanabi.spark.broker.cluster import Cluster
from hanabi.spark.broker.options import ReadOptions
from hanabi.store.inspection.home import FileReader, StoreHome, cannot_read
from hanabi.store.inspection.queues import find_queues
from hanabi.wire.bodies.offsets import ConsumerOffsetTable
from hanabi.wire.codes import RequestCode
from hanabi.wire.fastjson import decode_body, decode_file

OFFSETS_FILE = "consumerOffset.json"


class GroupLag(NamedTuple):
    """Lag of a group in a topic: messages still to consume, and the number of queues that have some."""

    group: str
    topic: str
    queues: int
    queues_behind: int
    lag: int


Ends = Mapping[tuple[str, int], int]  # by topic and queue: the offset of its next message


def lags_of(tables: Iterable[tuple[ConsumerOffsetTable, Ends]]) -> list[GroupLag]:
    """Return the lags from each broker's offsets and queue ends. Largest lag first."""
    behind: dict[tuple[str, str], list[int]] = defaultdict(list)
    for table, ends in tables:
        for name, offsets in table.offset_table.items():
            topic, _, group = name.partition("@")
            for queue_id, offset in offsets.items():
                end = ends.get((topic, queue_id))
                if end is not None and offset >= 0:
                    behind[group, topic].append(max(0, end - offset))
    lags = [
        GroupLag(group, topic, len(each), sum(lag > 0 for lag in each), sum(each))
        for (group, topic), each in behind.items()
    ]
    return sorted(lags, key=lambda lag: (-lag.lag, lag.group, lag.topic))


def cluster_lags(options: ReadOptions) -> list[GroupLag]:
    """Return the lags of all groups in the topics that *options* read. Every master is asked once."""

    async def ask() -> list[GroupLag]:
        core = await Core.acquire(options.client)
        try:
            cluster, access = Cluster(core, options, 0.0), QueueAccess(core)
            ends = await cluster.end_offsets(await cluster.queues())
            by_broker: dict[str, list[MessageQueue]] = defaultdict(list)
            for queue in ends:
                by_broker[await access.master_address(queue)].append(queue)
            tables = []
            for address, queues in by_broker.items():
                reply = await core.api.ask(
                    address, RequestCode.GET_ALL_CONSUMER_OFFSET, timeout=core.config.request_timeout_s
                )
                mine = {(queue.topic, queue.queue_id): ends[queue] for queue in queues}
                tables.append((decode_body(bytes(reply.body), ConsumerOffsetTable), mine))
            return lags_of(tables)
        finally:
            await core.release()

    loop = LoopThread.acquire()
    try:
        return loop.run(ask())
    finally:
        loop.release()


def store_lags(home: StoreHome, topics: Iterable[str]) -> list[GroupLag]:
    """Return the lags of all groups in *topics*, from the files.

    A running broker saves its offsets every few seconds.
    """
    wanted = frozenset(topics)
    path = home.config / OFFSETS_FILE
    try:
        table = decode_file(path.read_bytes(), ConsumerOffsetTable)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise cannot_read(path, error) from error
    except RemoteProtocolError as error:
        raise StoreError(f"{path} is not a table of offsets: {error}") from error
    with FileReader() as reader:
        ends = {
            (queue.topic, queue.queue_id): queue.end_offset(reader)
            for queue in find_queues(home.queues)
            if queue.topic in wanted
        }
    return lags_of([(table, ends)])
