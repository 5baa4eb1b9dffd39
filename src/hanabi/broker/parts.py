"""Parts of one broker, created in the order of their dependencies.

    Tables     state of the broker: settings, topics, groups, offsets, clients...; created before the store is open
    Services   work on messages: intake, delays, transactions...; created with an open store

Nothing is started or decided here: `broker.py` starts and stops, the parts decide.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from hanabi.broker.clients.client_calls import ClientCalls
from hanabi.broker.clients.consumers import Consumers
from hanabi.broker.clients.housekeeping import ClientTables
from hanabi.broker.clients.notices import Notices
from hanabi.broker.clients.producers import Producers
from hanabi.broker.clients.queue_locks import QueueLocks
from hanabi.broker.delay.divert import Diverter
from hanabi.broker.delay.level_delivery import DelayedDelivery
from hanabi.broker.delay.timer_delivery import Timer
from hanabi.broker.filters.consumer_filters import ConsumerFilters
from hanabi.broker.handlers.worker_pool import Workers
from hanabi.broker.offsets.commit_rules import Commits
from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.broker.offsets.offset_reset import OffsetReset
from hanabi.broker.pull.access import PullAccess
from hanabi.broker.pull.filters import PullFilters
from hanabi.broker.pull.long_polling import HeldPulls
from hanabi.broker.send.flow_control import FlowControl
from hanabi.broker.send.intake import Intake
from hanabi.broker.settings import Settings
from hanabi.broker.stats.broker_stats import BrokerStats
from hanabi.broker.tables.groups import Groups
from hanabi.broker.tables.topics import Topics
from hanabi.broker.transactions.transactions import Transactions
from hanabi.clock import monotonic_ms
from hanabi.store.indexer import Dispatched, Hooks
from hanabi.store.message_store import MessageStore
from hanabi.wire.delay_levels import parse_delay_levels
from hanabi.wire.system_names import SCHEDULE_TOPIC, TIMER_TOPIC

_QUERY_THREADS: Final = 2  # they share the interpreter with the loop: more would slow it down
_QUERIES_WAITING_MAX: Final = 256

Arrived = Callable[[Dispatched], None]


class Arrivals:
    """Notifies listeners when a message becomes readable. On the send hot path: keep it cheap."""

    def __init__(self, held_pulls: HeldPulls) -> None:
        self._held_pulls_arrived, self._awaited = held_pulls.arrived, held_pulls.awaited
        self._by_topic: dict[str, Arrived] = {}

    def tell(self, topic: str, arrived: Arrived) -> None:
        """Call *arrived* for each message of *topic* too."""
        self._by_topic[topic] = arrived

    def listens(self, topic: str, queue_id: int) -> bool:
        """Return whether there is a listener for messages of this queue."""
        return (topic, queue_id) in self._awaited or topic in self._by_topic

    def arrived(self, message: Dispatched) -> None:
        special = self._by_topic.get(message.topic)
        if special is not None:
            special(message)
        self._held_pulls_arrived(message)


class Tables:
    """State of one broker. Tables with a file in *folder* have read it."""

    def __init__(self, settings: Settings, folder: Path, now_ms: Callable[[], int]) -> None:
        self.settings, self._now_ms = settings, now_ms
        self.topics = Topics(folder / "topics.json", settings, now_ms)
        self.groups = Groups(folder / "subscriptionGroup.json", settings, now_ms)
        self.offsets = ConsumerOffsets(folder / "consumerOffset.json")
        self.filters = ConsumerFilters(folder / "consumerFilter.json", settings, now_ms)
        self.stats = BrokerStats(settings.broker.cluster_name, now_ms)
        # Setting the clock must neither give a queue two owners nor expire clients.
        self.producers = Producers(monotonic_ms)
        self.locks = QueueLocks(monotonic_ms)
        self.consumers = Consumers(Notices(settings), self.filters, monotonic_ms, on_left=self.locks.left)
        self.clients = ClientTables(self.producers, self.consumers, self.locks, monotonic_ms)
        self.held_pulls = HeldPulls(settings)
        self.delay_levels = parse_delay_levels(settings.broker.message_delay_levels)
        self.arrivals = Arrivals(self.held_pulls)

    def _deliver_time_ms(self, level: int, stored_ms: int) -> int:
        """Return the due time of a message of a delay level. The store's times never go back: after the clock was set
        back they stand still, and a message would seem to wait for longer than its level allows."""
        return self.delay_levels.deliver_time_ms(level, min(stored_ms, self._now_ms()))

    def store_hooks(self) -> Hooks:
        """Return the hooks that the store calls while it appends."""
        bits = self.settings.broker.filter_bitmap_enabled
        return Hooks(
            on_append=self.arrivals.arrived,
            listens=self.arrivals.listens,
            deliver_time_ms=self._deliver_time_ms,
            filter_bits=self.filters.filter_bits if bits else None,
        )


class Services:
    """Services of one broker that work on messages."""

    def __init__(self, tables: Tables, store: MessageStore, folder: Path, now_ms: Callable[[], int]) -> None:
        settings, topics, offsets = tables.settings, tables.topics, tables.offsets
        diverter = Diverter(tables.delay_levels, settings, now_ms)
        self.intake = Intake(store, tables.stats, diverter.divert)
        self.flow = FlowControl(store, settings)
        self.delivery = DelayedDelivery(
            store, self.intake.put_as_is, tables.delay_levels, folder / "config", settings, now_ms
        )
        self.timer = Timer(store, self.intake.put_as_is, folder / "timer", settings, now_ms)
        self.transactions = Transactions(store, self.intake, offsets, tables.producers, topics, settings, now_ms)
        self.commits = Commits(offsets, tables.consumers, is_lost=store.reader.is_lost)
        filters = PullFilters(settings, tables.consumers, tables.filters)
        self.pull_access = PullAccess(settings, topics, tables.groups, filters)
        self.client_calls = ClientCalls(tables.consumers)
        self.offset_reset = OffsetReset(topics, offsets, store.reader, store.queries)
        self.queries = Workers("key queries", threads=_QUERY_THREADS, waiting_max=_QUERIES_WAITING_MAX)
        tables.arrivals.tell(SCHEDULE_TOPIC, self.delivery.arrived)
        tables.arrivals.tell(TIMER_TOPIC, self.timer.arrived)

    def clock_moved(self) -> None:
        """Check at once for messages that became due because the clock was set."""
        self.delivery.wake()
        self.timer.wake()
