"""Runtime info of the broker (28): the figures of `mqadmin brokerStatus` and `clusterList`.

Keys and texts are those of AdminBrokerProcessor.prepareRuntimeInfo, DefaultMessageStore.getRuntimeInfo and
StoreStatsService (4.9.8), plus one that the tools of 5.x need (brokerActive) and one of ours: the number of groups
whose members subscribe differently. One event loop answers everything, so thread-pool queues are reported empty with
Java's default capacities; a request's waiting time is the lateness of the loop.
"""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from hanabi._version import __version__
from hanabi.broker.clients.consumer_group import ConsumerGroup
from hanabi.broker.clients.consumers import Consumers
from hanabi.broker.handlers.admin.support.limits import NO_BODY_BYTES_MAX
from hanabi.broker.ignored_keys import IGNORED_KEYS
from hanabi.broker.settings import Settings
from hanabi.broker.stats.broker_stats import BrokerStats
from hanabi.broker.stats.store_stats import java_double
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.store.files.disk import used_ratio
from hanabi.store.message_store import MessageStore
from hanabi.wire.bodies.route import KVTable
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import VERSION, Command
from hanabi.wire.fastjson import encode_body
from hanabi.wire.header import NoHeader
from hanabi.wire.system_names import SCHEDULE_TOPIC

VERSION_NAME = "V4_9_8"
GROUPS_NAMED_MAX = 10
NO_POOL = str(2**31 - 1)  # free write buffers, as Java reports them without a pool


def runtime_handlers(
    store: MessageStore,
    stats: BrokerStats,
    settings: Settings,
    consumers: Consumers,
    delay_offsets: Callable[[], Mapping[int, int]],
    wait_ms: Callable[[], int],
    now_ms: Callable[[], int],
) -> dict[int, Handler]:
    """Return the handler of the runtime info. *wait_ms* is how long a request waits until it is read."""
    handlers = RuntimeHandlers(store, stats, settings, consumers, delay_offsets, wait_ms, now_ms)
    return {RequestCode.GET_BROKER_RUNTIME_INFO: Handler(NoHeader, handlers.show, NO_BODY_BYTES_MAX)}


class RuntimeHandlers:
    """Collector of runtime figures from the parts of the broker."""

    def __init__(
        self,
        store: MessageStore,
        stats: BrokerStats,
        settings: Settings,
        consumers: Consumers,
        delay_offsets: Callable[[], Mapping[int, int]],
        wait_ms: Callable[[], int],
        now_ms: Callable[[], int],
    ) -> None:
        self._store, self._stats, self._settings, self._consumers = store, stats, settings, consumers
        self._delay_offsets, self._wait_ms, self._now_ms = delay_offsets, wait_ms, now_ms

    def show(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        table = {
            **self._stats.store.runtime_info(self._now_ms()),
            **self._disk(),
            **self._log(),
            **self._delays(),
            **self._waiting(),
            "brokerVersion": str(VERSION),
            "brokerVersionDesc": VERSION_NAME,
            "brokerActive": "true",
            "hanabiVersion": __version__,
            "groupsSubscribingDifferently": differing_text(self._consumers.differing()),
            "startAcceptSendRequestTimeStamp": str(self._settings.broker.start_accept_sends_at_ms),
        }
        return Reply(body=encode_body(KVTable(table=table)))

    def _disk(self) -> dict[str, str]:
        config = self._store.config
        log_ratio = java_double(used_ratio(config.commit_log_path))
        usage = shutil.disk_usage(config.root)
        return {
            "commitLogDiskRatio": log_ratio,
            f"commitLogDiskRatio_{config.commit_log_path}": log_ratio,
            "consumeQueueDiskRatio": java_double(used_ratio(_existing(config.consume_queue_path))),
            "commitLogDirCapacity": f"Total : {readable_bytes(usage.total)}, Free : {readable_bytes(usage.free)}.",
        }

    def _log(self) -> dict[str, str]:
        store = self._store
        return {
            "remainTransientStoreBufferNumbs": NO_POOL,
            "commitLogMinOffset": str(store.min_log_offset),
            "commitLogMaxOffset": str(store.max_log_offset),
            "earliestMessageTimeStamp": str(store.queries.earliest_store_time_in_log()),
            "remainHowManyDataToFlush": readable_bytes(store.max_log_offset - store.flushed_log_offset),
            "dispatchBehindBytes": "0",  # dispatch is part of the put
            "pageCacheLockTimeMills": "0",  # one thread appends, so there is no lock
        }

    def _delays(self) -> dict[str, str]:
        max_offset = self._store.reader.max_offset
        return {
            f"scheduleMessageOffset_{level}": f"{offset},{max_offset(SCHEDULE_TOPIC, level - 1)}"
            for level, offset in self._delay_offsets().items()
        }

    def _waiting(self) -> dict[str, str]:
        wait_ms = str(self._wait_ms())
        pools = {
            f"{pool}ThreadPoolQueue{what}": value
            for pool in ("send", "pull", "query")
            for what, value in (
                ("Size", "0"),
                ("Capacity", IGNORED_KEYS[f"{pool}ThreadPoolQueueCapacity"]),
                ("HeadWaitTimeMills", wait_ms),
            )
        }
        return {
            **pools,
            "EndTransactionQueueSize": "0",
            "EndTransactionThreadPoolQueueCapacity": IGNORED_KEYS["endTransactionPoolQueueCapacity"],
        }


def differing_text(groups: list[ConsumerGroup]) -> str:
    """Return the number of groups whose members subscribe differently, and the first of them: messages are skipped
    there."""
    named = [f"{group.name} ({len(group.differs)} of {len(group.members)})" for group in groups[:GROUPS_NAMED_MAX]]
    more = [", ..."] if len(groups) > GROUPS_NAMED_MAX else []
    return f"{len(groups)}{': ' if named else ''}{', '.join(named)}{''.join(more)}"


def _existing(path: Path) -> Path:
    """Return *path* or its nearest existing parent: before the first message there are no queues."""
    return path if path.exists() else path.parent


def readable_bytes(count: int) -> str:
    """Format as Java's MixAll.humanReadableByteCount: 512 B, 1.5 KiB, 20.0 GiB."""
    if count < 1024:
        return f"{count} B"
    value, units = float(count), "KMGTPE"
    for unit in units:
        value /= 1024
        if value < 1024 or unit == units[-1]:
            return f"{value:.1f} {unit}iB"
    raise AssertionError("unreachable")
