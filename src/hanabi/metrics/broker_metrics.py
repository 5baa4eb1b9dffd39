"""The metrics of a broker: counters that it keeps anyway, read at each scrape.

Nothing is counted here, and the broker does not know of scrapes. Everything is iterators of lines, over copies of the
tables' keys: the writer yields to the event loop in between, and meanwhile topics come and go.

Topics, groups and queues are named by clients, so no family has more than `series_max` samples: the first ones in the
tables' order, which is the order in which they came, so that a series that is shown stays. How many are left out is
shown as well.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from hanabi.access.quotas.meter import Meter
from hanabi.broker.broker import Broker
from hanabi.broker.stats.store_stats import CLASS_LIMITS_MS
from hanabi.metrics.exposition import Sample, counter, gauge, histogram, labels
from hanabi.metrics.replication_metrics import replication_lines
from hanabi.store.files.disk import used_ratio
from hanabi.wire.system_names import SCHEDULE_TOPIC

SERIES_MAX = 20_000
PUT_BOUNDS = tuple(ms / 1000 for ms in CLASS_LIMITS_MS)


class Bounded:
    """Limits the samples of a family, and counts those that are left out."""

    def __init__(self, series_max: int) -> None:
        self._series_max = series_max
        self._left_out: dict[str, int] = {}

    def __call__(self, family: str, samples: Iterable[Sample], count: int) -> Iterator[Sample]:
        """Yield the first of *samples*, which are *count*. The rest is not computed: there may be very many."""
        if count > self._series_max:
            self._left_out[family] = count - self._series_max
        return islice(samples, self._series_max)

    def left_out(self) -> Iterator[Sample]:
        """Yield the number of samples left out of each family; complete after all families were written."""
        for name, count in self._left_out.items():
            yield labels(family=name), count


class DiskFacts(NamedTuple):
    """The usage of a store's disks. It is read in a thread, because the call may block."""

    log_ratio: float
    root_ratio: float


def disk_facts(broker: Broker) -> DiskFacts:
    config = broker.store.config
    return DiskFacts(used_ratio(config.commit_log_path), used_ratio(Path(config.root)))


def broker_lines(broker: Broker, disk: DiskFacts, series_max: int = SERIES_MAX) -> Iterator[str]:
    """Return all families of *broker*."""
    bounded = Bounded(series_max)
    return chain(
        _traffic(broker, bounded),
        _latency(broker),
        _lag(broker, bounded),
        _clients(broker, bounded),
        _store(broker, disk),
        _state(broker),
        replication_lines(broker),
        gauge("hanabi_metrics_left_out", "Samples omitted over the limit.", bounded.left_out()),
    )


def _traffic(broker: Broker, bounded: Bounded) -> Iterator[str]:
    stats = broker.tables.stats
    for name, about, totals in (
        ("in", "stored, by topic", stats.put_totals()),
        ("out", "delivered to consumers, by topic and group", stats.get_totals()),
    ):
        messages, size = f"hanabi_messages_{name}_total", f"hanabi_bytes_{name}_total"
        samples = ((labels(**of), tally.messages) for of, tally in totals)
        yield from counter(messages, f"Messages {about}.", bounded(messages, samples, len(totals)))
        samples = ((labels(**of), tally.bytes) for of, tally in totals)
        yield from counter(size, f"Bytes of messages {about}.", bounded(size, samples, len(totals)))
    name, totals = "hanabi_messages_sent_back_total", stats.send_back_totals()
    samples = ((labels(**of), tally.messages) for of, tally in totals)
    yield from counter(name, "Messages that consumers sent back after a failure.", bounded(name, samples, len(totals)))
    store = stats.store
    yield from counter("hanabi_puts_total", "Messages stored, of all topics.", store.puts)
    yield from counter("hanabi_put_bytes_total", "Bytes stored, of all topics.", store.put_bytes)
    yield from counter("hanabi_puts_failed_total", "Messages that could not be stored.", store.puts_failed)
    yield from counter("hanabi_messages_pulled_total", "Messages delivered, of all topics.", store.transferred)
    pulls = [(labels(result="found"), store.gets_found), (labels(result="missed"), store.gets_missed)]
    yield from counter("hanabi_pulls_total", "Answered pulls, with and without messages.", pulls)
    yield from _fast_path(broker)
    yield from _access(broker, bounded)


def _access(broker: Broker, bounded: Bounded) -> Iterator[str]:
    """Yield the counters of access control. Without it nothing is refused and no line written."""
    control = broker.access_control
    refused = control.refusals.count if control is not None else 0
    yield from counter("hanabi_access_refused_total", "Requests that access control refused.", refused)
    log = control.audit.log if control is not None and control.audit is not None else None
    written, lost = (log.written, log.lost) if log is not None else (0, 0)
    lines = [(labels(result="written"), written), (labels(result="lost"), lost)]
    yield from counter("hanabi_audit_lines_total", "Lines of the audit log, written and lost.", lines)
    guesses = control.guesses if control is not None else None
    delayed, closed = (guesses.delayed, guesses.closed) if guesses is not None else (0, 0)
    answers = [(labels(result="delayed"), delayed), (labels(result="closed"), closed)]
    yield from counter("hanabi_wrong_signatures_total", "Wrong signatures, answered late or by a close.", answers)
    yield from _quotas(list(control.metering.meters.values()) if control is not None else [], bounded)


def _quotas(meters: list[Meter], bounded: Bounded) -> Iterator[str]:
    """Yield what accounts with a quota take."""
    for name, about, attribute in (
        ("hanabi_account_requests_total", "Requests of accounts that have a quota.", "requests"),
        ("hanabi_account_bytes_in_total", "Bytes of requests of accounts that have a quota.", "bytes_in"),
        ("hanabi_account_bytes_out_total", "Bytes of answers to accounts that have a quota.", "bytes_out"),
    ):
        samples = ((labels(account=meter.account), getattr(meter, attribute)) for meter in meters)
        yield from counter(name, about, bounded(name, samples, len(meters)))
    over = [
        (labels(account=meter.account, limit=limit, result=result), count)
        for meter in meters
        for result, counts in (("delayed", meter.delayed), ("refused", meter.refused))
        for limit, count in counts.items()
    ]
    name = "hanabi_account_over_quota_total"
    yield from counter(name, "Requests over a quota.", bounded(name, over, len(over)))


def _fast_path(broker: Broker) -> Iterator[str]:
    """Yield the fast path's counters by kind. Without compiled functions there are no samples."""
    counts = broker.fast_path_counts
    served = [
        (labels(kind=each.kind, path=path), count)
        for each in counts
        for path, count in (("fast", each.taken), ("handlers", each.handled))
    ]
    about = "Sends and pulls, by the code that served them."
    yield from counter("hanabi_fast_path_requests_total", about, served)
    declined = [(labels(kind=each.kind, reason=reason), count) for each in counts for reason, count in each.reasons()]
    about = "Sends and pulls that the fast path declined, by reason."
    yield from counter("hanabi_fast_path_declined_total", about, declined)


def _latency(broker: Broker) -> Iterator[str]:
    store = broker.tables.stats.store
    slow = store.slow_puts.copy()
    counts = [max(store.puts - sum(slow[1:]), 0), *slow[1:]]  # the quick ones are not counted one by one
    yield from histogram(
        "hanabi_put_seconds",
        "Time to append a message to the log, without waiting for the disk.",
        PUT_BOUNDS,
        [({}, counts, store.put_seconds)],
    )


def _lag(broker: Broker, bounded: Bounded) -> Iterator[str]:
    """Yield the lag of groups, in two passes over the table, as a family must be in one piece."""
    offsets = broker.tables.offsets
    name = "hanabi_group_lag_messages"
    by_group = (
        (labels(group=group, topic=topic), sum(behind for _, behind in _behind(broker, group, topic)))
        for topic, group in offsets.each_topic_and_group()
    )
    about = "Unconsumed messages of a group by topic."
    yield from gauge(name, about, bounded(name, by_group, offsets.pairs))
    name = "hanabi_queue_lag_messages"
    by_queue = (
        (labels(group=group, topic=topic, queue=queue), behind)
        for topic, group in offsets.each_topic_and_group()
        for queue, behind in _behind(broker, group, topic)
    )
    about = "Unconsumed messages of a group by topic and queue."
    yield from gauge(name, about, bounded(name, by_queue, len(offsets)))


def _behind(broker: Broker, group: str, topic: str) -> Iterator[tuple[int, int]]:
    max_offset = broker.store.reader.max_offset
    for queue_id, offset in broker.tables.offsets.of(group, topic).items():
        yield queue_id, max(max_offset(topic, queue_id) - offset, 0)


def _clients(broker: Broker, bounded: Bounded) -> Iterator[str]:
    tables = broker.tables
    yield from gauge("hanabi_held_pulls", "Pulls waiting for messages.", len(tables.held_pulls))
    yield from gauge("hanabi_held_pops", "Pops waiting for messages.", len(tables.held_pops))
    name = "hanabi_pop_in_flight_messages"
    counts = broker.services.pop.flights.counts()
    in_flight = ((labels(group=group, topic=topic), count) for (topic, group), count in counts.items())
    yield from gauge(
        name, "Popped messages of a group that are not acknowledged.", bounded(name, in_flight, len(counts))
    )
    groups = tables.consumers.groups()
    producers = {connection for members in tables.producers.groups().values() for connection in members}
    yield from gauge("hanabi_producers", "Connected producers.", len(producers))
    yield from gauge("hanabi_consumer_groups", "Consumer groups with members.", len(groups))
    name = "hanabi_group_members"
    members = ((labels(group=name), len(group.members)) for name, group in list(groups.items()))
    yield from gauge(name, "Connected members of a consumer group.", bounded(name, members, len(groups)))
    yield from gauge(
        "hanabi_groups_subscribing_differently",
        "Groups whose members subscribe differently.",
        len(tables.consumers.differing()),
    )


def _store(broker: Broker, disk: DiskFacts) -> Iterator[str]:
    store, recovery = broker.store, broker.store.recovery
    ratios = [(labels(what="commitlog"), disk.log_ratio), (labels(what="root"), disk.root_ratio)]
    yield from gauge("hanabi_disk_used_ratio", "Used share of the disk, 0 to 1; -1 if unknown.", ratios)
    yield from gauge(
        "hanabi_disk_refuses_messages",
        "1 while sends are refused because the disk is full.",
        int(store.retention.refuses),
    )
    yield from gauge("hanabi_log_begin_bytes", "The oldest offset of the commit log.", store.min_log_offset)
    yield from gauge("hanabi_log_end_bytes", "The end offset of the commit log.", store.max_log_offset)
    behind = max(store.max_log_offset - store.flushed_log_offset, 0)
    yield from gauge("hanabi_flush_behind_bytes", "Bytes of the commit log not yet flushed to disk.", behind)
    yield from gauge(
        "hanabi_dispatch_behind_messages",
        "Messages missing in the key index because it cannot be written.",
        store.undispatched,
    )
    yield from gauge("hanabi_recovery_seconds", "Time to open the store.", recovery.seconds)
    yield from gauge("hanabi_recovery_messages", "Messages examined when the store was opened.", recovery.records)
    yield from gauge(
        "hanabi_recovery_damages", "Damaged places found when the store was opened.", len(recovery.damages)
    )


def _state(broker: Broker) -> Iterator[str]:
    tables = broker.tables
    yield from gauge("hanabi_topics", "Topics, system topics included.", len(tables.topics))
    yield from gauge(
        "hanabi_broker_busy",
        "1 while sends are refused because the broker is overloaded.",
        int(broker.services.flow.busy is not None),
    )
    waiting = ((labels(level=level), count) for level, count in _delayed(broker))
    yield from gauge("hanabi_delayed_messages", "Messages waiting for their delay level.", waiting)
    registered = set(broker.registration.registered)
    known = (
        (labels(namesrv=address), int(address in registered)) for address in broker.settings.broker.namesrv_addresses
    )
    yield from gauge("hanabi_registered", "1 if the broker is registered with the name server.", known)


def _delayed(broker: Broker) -> Iterator[tuple[int, int]]:
    """Yield the number of waiting messages in each delay level that was ever used. The delivered offset
    of a level is known after its first delivery."""
    reader, delivered = broker.store.reader, broker.services.delivery.table().offset_table
    for queue_id in sorted(broker.store.queues_of(SCHEDULE_TOPIC)):
        begin = max(delivered.get(queue_id + 1, 0), reader.min_offset(SCHEDULE_TOPIC, queue_id))
        yield queue_id + 1, max(reader.max_offset(SCHEDULE_TOPIC, queue_id) - begin, 0)
