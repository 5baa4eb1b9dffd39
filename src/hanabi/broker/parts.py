"""Parts of one broker, created in the order of their dependencies.

    Tables     state of the broker: settings, topics, groups, offsets, clients...; created before the store is open
    Services   work on messages: intake, delays, transactions...; created with an open store

Nothing is started or decided here: `broker.py` starts and stops, the parts decide.
"""

from collections import deque
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
from hanabi.broker.delay.escaping_put import EscapingPut
from hanabi.broker.delay.level_delivery import DelayedDelivery
from hanabi.broker.delay.timer_delivery import Timer
from hanabi.broker.filters.consumer_filters import ConsumerFilters
from hanabi.broker.handlers.worker_pool import Workers
from hanabi.broker.offsets.commit_rules import CommitRules
from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.broker.offsets.offset_reset import OffsetReset
from hanabi.broker.pop.held_pops import HeldPops
from hanabi.broker.pop.revive_log import ReviveLog
from hanabi.broker.pop.service import PopService
from hanabi.broker.pull.access import PullAccess
from hanabi.broker.pull.filters import PullFilters
from hanabi.broker.pull.long_polling import HeldPulls
from hanabi.broker.replica.copied_tables import CopiedTables
from hanabi.broker.replica.queue_ends import CopiedQueueEnds
from hanabi.broker.send.durability import Durability
from hanabi.broker.send.flow_control import FlowControl
from hanabi.broker.send.intake import Intake
from hanabi.broker.settings import Settings
from hanabi.broker.stats.broker_stats import BrokerStats
from hanabi.broker.tables.foreign_table import ForeignTable
from hanabi.broker.tables.groups import Groups
from hanabi.broker.tables.topics import Topics
from hanabi.broker.transactions.transactions import Transactions
from hanabi.clock import monotonic_ms
from hanabi.replication.acks import Acknowledgements
from hanabi.store.indexer import Dispatched, Hooks
from hanabi.store.message_store import MessageStore
from hanabi.store.read.queue_reader import NO_LIMIT
from hanabi.wire.bodies.offsets import TimerCheckpoint, TimerMetricsTable
from hanabi.wire.bodies.pop import MessageRequestModeTable
from hanabi.wire.delay_levels import parse_delay_levels
from hanabi.wire.system_names import SCHEDULE_TOPIC, TIMER_TOPIC

NOTHING_DONE: Final = TimerCheckpoint(0, 0, 0, 0)
_QUERY_THREADS: Final = 2  # they share the interpreter with the loop: more would slow it down
_QUERIES_WAITING_MAX: Final = 256

Arrived = Callable[[Dispatched], None]


class Arrivals:
    """Notifies listeners when a message becomes readable. On the send hot path: keep it cheap."""

    def __init__(self, held_pulls: HeldPulls, held_pops: HeldPops) -> None:
        self._held_pulls_arrived, self._awaited = held_pulls.arrived, held_pulls.awaited
        self._held_pops_arrived, self._popped_topics = held_pops.arrived, held_pops.by_topic
        self._by_topic: dict[str, Arrived] = {}
        self._confirmed = NO_LIMIT
        self._unconfirmed: deque[Dispatched] = deque()  # held back until replicas have them

    def listen(self, topic: str, arrived: Arrived) -> None:
        """Call *arrived* for each message of *topic* too."""
        self._by_topic[topic] = arrived

    def stop_listening(self, topic: str) -> None:
        """Undo `listen`."""
        self._by_topic.pop(topic, None)

    def listens(self, topic: str, queue_id: int) -> bool:
        """Return whether there is a listener for messages of this queue. Messages that are not confirmed yet may get
        one until they are."""
        return (
            self._confirmed != NO_LIMIT
            or (topic, queue_id) in self._awaited
            or topic in self._by_topic
            or topic in self._popped_topics
        )

    def confirm(self, log_offset: int) -> None:
        """Notify the listeners of messages up to *log_offset* only; NO_LIMIT: of all."""
        self._confirmed, held = log_offset, self._unconfirmed
        while held and held[0].log_offset + held[0].size <= log_offset:
            self._notify(held.popleft())

    def cut(self, log_offset: int) -> None:
        """Forget held messages from *log_offset* on: the log was cut there."""
        while self._unconfirmed and self._unconfirmed[-1].log_offset >= log_offset:
            self._unconfirmed.pop()

    def arrived(self, message: Dispatched) -> None:
        if message.log_offset + message.size > self._confirmed:
            self._unconfirmed.append(message)
        else:
            self._notify(message)

    def _notify(self, message: Dispatched) -> None:
        special = self._by_topic.get(message.topic)
        if special is not None:
            special(message)
        if message.topic in self._popped_topics:
            self._held_pops_arrived(message)
        self._held_pulls_arrived(message)


class Tables:
    """State of one broker. Tables with a file in *folder* have read it."""

    def __init__(self, settings: Settings, folder: Path, now_ms: Callable[[], int]) -> None:
        self.settings, self._now_ms = settings, now_ms
        self.topics = Topics(folder / "topics.json", settings, now_ms)
        self.groups = Groups(folder / "subscriptionGroup.json", settings, now_ms)
        self.offsets = ConsumerOffsets(folder / "consumerOffset.json")
        self.request_modes = ForeignTable(folder / "messageRequestMode.json", MessageRequestModeTable())
        self.timer_metrics = ForeignTable(folder / "timermetrics", TimerMetricsTable())
        self.queue_ends = CopiedQueueEnds(folder)  # of a slave
        self.filters = ConsumerFilters(folder / "consumerFilter.json", settings, now_ms)
        self.stats = BrokerStats(settings.broker.cluster_name, now_ms)
        # Setting the clock must neither give a queue two owners nor expire clients.
        self.producers = Producers(monotonic_ms)
        self.locks = QueueLocks(monotonic_ms)
        self.consumers = Consumers(Notices(settings), self.filters, monotonic_ms, on_left=self.locks.left)
        self.clients = ClientTables(self.producers, self.consumers, self.locks, monotonic_ms)
        self.held_pulls = HeldPulls(settings)
        self.held_pops = HeldPops()
        self.delay_levels = parse_delay_levels(settings.broker.message_delay_levels)
        self.arrivals = Arrivals(self.held_pulls, self.held_pops)

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

    def __init__(
        self,
        tables: Tables,
        store: MessageStore,
        folder: Path,
        now_ms: Callable[[], int],
        acks: Acknowledgements | None = None,
    ) -> None:
        """*acks*: slaves that puts wait for."""
        self._tables, self._store, self._folder, self._now_ms = tables, store, folder, now_ms
        settings, topics, offsets = tables.settings, tables.topics, tables.offsets
        self._tables, self._store, self._folder, self._now_ms = tables, store, folder, now_ms
        diverter = Diverter(tables.delay_levels, settings, now_ms)
        self.intake = Intake(store, tables.stats, diverter.divert, Durability(store, acks))
        self.flow = FlowControl(store, settings)
        self.copied: CopiedTables | None = None  # of a slave, which delivers nothing
        self.is_acting = False  # as master
        self.acted: TimerCheckpoint | None = None  # progress of the timer when it last did
        self.renew_delivery()
        self.transactions = Transactions(store, self.intake, offsets, tables.producers, topics, settings, now_ms)
        self.commits = CommitRules(offsets, tables.consumers, is_lost=store.reader.is_lost)
        self.pull_filters = PullFilters(settings, tables.consumers, tables.filters)
        self.pull_access = PullAccess(settings, topics, tables.groups, self.pull_filters)
        self.pop = PopService(
            store, self.intake.put_as_is, topics, offsets, settings, tables.held_pops, folder / "config", now_ms
        )
        self.revive_log = ReviveLog(
            *(store, topics, tables.groups, offsets, settings, self.pop.revival),
            timer_done_ms=lambda: self.timer.progress()[0],
            wake_timer=lambda: self.timer.wake(),
        )
        self.client_calls = ClientCalls(tables.consumers)
        self.offset_reset = OffsetReset(topics, offsets, store.reader, store.queries)
        self.queries = Workers("key queries", threads=_QUERY_THREADS, waiting_max=_QUERIES_WAITING_MAX)
        if settings.is_slave:
            others = tables.request_modes, tables.timer_metrics, tables.queue_ends
            self.copied = CopiedTables(store, topics, tables.groups, offsets, self.delivery, *others)
        else:
            self.listen()

    def renew_delivery(self, levels: EscapingPut | None = None, timers: EscapingPut | None = None) -> None:
        """Create the delivery of delayed and timed messages from their files. Blocks. An acting slave gives the puts
        that send to another master."""
        own, now_ms, settings = self.intake.put_as_is, self._now_ms, self._tables.settings
        self.delivery = DelayedDelivery(
            *(self._store, levels.put if levels else own, self._tables.delay_levels, self._folder / "config"),
            *(settings, now_ms),
            before_step=levels.send_noted if levels else None,
        )
        self.timer = Timer(
            *(self._store, timers.put if timers else own, self._folder / "timer", settings, now_ms),
            before_step=timers.send_noted if timers else None,
        )
        if self.copied is not None:
            self.copied.delivery = self.delivery

    def listen(self) -> None:
        """Tell the delivery of messages that arrive."""
        self._tables.arrivals.listen(SCHEDULE_TOPIC, self.delivery.arrived)
        self._tables.arrivals.listen(TIMER_TOPIC, self.timer.arrived)

    def stop_listening(self) -> None:
        """Tell it no more."""
        self._tables.arrivals.stop_listening(SCHEDULE_TOPIC)
        self._tables.arrivals.stop_listening(TIMER_TOPIC)

    def timer_checkpoint(self) -> TimerCheckpoint | None:
        """Return the progress of the timer; of a slave its master's, None while that is unknown.

        A slave that may act as master returns only what it did itself: its master takes that over when it returns."""
        if self.copied is not None and self._tables.settings.is_slave and not self.is_acting:
            may_act = self._tables.settings.broker.acting_master_enabled
            return self.acted or NOTHING_DONE if may_act else self.copied.timer_checkpoint
        read_ms, queue_offset = self.timer.progress()
        return TimerCheckpoint(read_ms, 0, queue_offset, queue_offset, timestamp=read_ms, counter=queue_offset)

    def clock_moved(self) -> None:
        """Check at once for messages that became due because the clock was set."""
        self.delivery.wake()
        self.timer.wake()
        self.pop.clock_moved()
