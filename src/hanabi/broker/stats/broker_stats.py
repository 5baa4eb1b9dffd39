"""Counters of the broker by topic, by group and in total. All parts that serve messages add to them.

Counting is a dictionary lookup and a few integer adds. The fast path of sends adds up by itself, and its sums are
collected before a counter is read. Windows (minute, hour, day) come from samples that `tick` takes. Names and keys are
those of Java's BrokerStatsManager, because operators ask by them:

    TOPIC_PUT_NUMS, TOPIC_PUT_SIZE                     TOPIC
    QUEUE_PUT_NUMS, QUEUE_PUT_SIZE                     TOPIC@QUEUE
    GROUP_GET_NUMS, GROUP_GET_SIZE, SNDBCK_PUT_NUMS    TOPIC@GROUP
    QUEUE_GET_NUMS, QUEUE_GET_SIZE                     TOPIC@QUEUE@GROUP
    GROUP_GET_LATENCY                                  QUEUE@TOPIC@GROUP
    BROKER_PUT_NUMS, BROKER_GET_NUMS                   CLUSTER

Java's COMMERCIAL_ and FROM_DISK counters are never counted there either (the first need a property that only one vendor
sets, the second are never set), so a request for them gets the same answer: there is none.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from hanabi.broker.stats.sampler import KEYS_MAX, Sampler, Tallies
from hanabi.broker.stats.store_stats import StoreStats
from hanabi.broker.stats.tally import Figures, Tally, Window

WORTH_TELLING_SECONDS: Final = 0.001  # of a put: see `StoreStats.put_took`

_QueueOfTopic = tuple[str, int]
_GroupOfTopic = tuple[str, str]
_QueueOfGroup = tuple[int, str, str]
_Runs = tuple[Iterable[tuple[str, int, int, int, int]], float]  # the arguments of `put_run`


class StatsView(NamedTuple):
    """One counter over its three windows."""

    minute: Figures
    hour: Figures
    day: Figures


class Totals:
    """Tallies since the start, by key. The keys are a copy: counting may go on meanwhile."""

    def __init__(self, names: tuple[str, ...], keys: Iterable[tuple[str, ...]], tallies: Iterable[Tally]) -> None:
        self._names = names
        self._tallies = list(zip(keys, tallies, strict=True))

    def __len__(self) -> int:
        return len(self._tallies)

    def __iter__(self) -> Iterator[tuple[dict[str, str], Tally]]:
        names = self._names
        return ((dict(zip(names, key, strict=True)), tally) for key, tally in self._tallies)


class BrokerStats:
    """The counters of one broker."""

    def __init__(self, cluster_name: str, now_ms: Callable[[], int], *, keys_max: int = KEYS_MAX) -> None:
        self._now_ms = now_ms
        self._cluster_name = cluster_name
        self._keys_max = keys_max
        self._sampler = sampler = Sampler(now_ms())
        self._store: Final = StoreStats(now_ms())
        self._uncounted: list[Callable[[], _Runs]] = []
        self._broker_put = sampler.new_tally()
        self._broker_get = sampler.new_tally()
        self._topic_put: Tallies[str] = Tallies(sampler, keys_max)
        self._queue_put: Tallies[_QueueOfTopic] = Tallies(sampler, keys_max)
        self._group_get: Tallies[_GroupOfTopic] = Tallies(sampler, keys_max)
        self._queue_get: Tallies[_QueueOfGroup] = Tallies(sampler, keys_max)
        self._send_back: Tallies[_GroupOfTopic] = Tallies(sampler, keys_max)
        self._latency: Tallies[_QueueOfGroup] = Tallies(sampler, keys_max)
        self._fall_ms: dict[_QueueOfGroup, int] = {}
        self._fall_bytes: dict[_QueueOfGroup, int] = {}

    # Counting: the fast path

    def put(self, topic: str, count: int, size: int, queue_id: int = -1) -> None:
        """Count *count* stored messages of *size* bytes in total, by one call. Includes everything that is stored."""
        self.put_run(((topic, count, size, queue_id, 1),))

    def put_run(self, stored: Iterable[tuple[str, int, int, int, int]], seconds: float = 0.0) -> None:
        """Count the messages that runs stored, by queue: topic, messages, their bytes, queue id, calls. *seconds* are
        those that they took, without batches."""
        all_messages = all_bytes = 0
        topics, queues = self._topic_put, self._queue_put
        for topic, count, size, queue_id, times in stored:
            tally = topics[topic]
            tally.messages += count
            tally.bytes += size
            tally.times += times
            if queue_id >= 0:
                tally = queues[topic, queue_id]
                tally.messages += count
                tally.bytes += size
                tally.times += times
            all_messages += count
            all_bytes += size
        self._broker_put.messages += all_messages
        store = self._store
        store.puts += all_messages
        store.put_bytes += all_bytes
        store.put_seconds += seconds

    def put_runs_of(self, uncounted: Callable[[], _Runs]) -> None:
        """Ask *uncounted* for what to count with `put_run` whenever a counter is read: cheaper than after each run."""
        self._uncounted.append(uncounted)

    def _collect(self) -> None:
        for uncounted in self._uncounted:
            self.put_run(*uncounted())

    def put_failed(self) -> None:
        """Count a message that the store refused."""
        self._store.puts_failed += 1

    def put_latency_ms(self, ms: int) -> None:
        """Count the duration of one put."""
        self._store.put_took(ms)

    def get(self, group: str, topic: str, count: int, size: int, queue_id: int = -1) -> None:
        """Count *count* messages of *size* bytes in total that a group was sent."""
        tally = self._group_get[topic, group]
        tally.messages += count
        tally.bytes += size
        tally.times += 1
        if queue_id >= 0:
            tally = self._queue_get[queue_id, topic, group]
            tally.messages += count
            tally.bytes += size
            tally.times += 1
        self._broker_get.messages += count
        store = self._store
        store.gets_found += 1
        store.transferred += count

    def found(
        self,
        group: str,
        topic: str,
        queue_id: int,
        count: int,
        size: int,
        behind_bytes: int,
        last_store_ms: int,
        began_ms: int,
        now_ms: int,
    ) -> None:
        """Count a pull answered with *count* messages: as `get` does, plus the age of the last message, the lag in log
        bytes, and the duration."""
        self.get(group, topic, count, size)
        key = queue_id, topic, group
        _set_bounded(self._fall_bytes, key, behind_bytes, self._keys_max)
        _set_bounded(self._fall_ms, key, now_ms - last_store_ms, self._keys_max)
        self.get_latency(group, topic, queue_id, now_ms - began_ms)

    def get_missed(self) -> None:
        """Count a pull without a message."""
        self._store.gets_missed += 1

    def get_latency(self, group: str, topic: str, queue_id: int, ms: int) -> None:
        """Count the duration of a read for a group."""
        tally = self._latency[queue_id, topic, group]
        tally.messages += ms
        tally.times += 1
        if ms > self._store.get_ms_max:
            self._store.get_ms_max = ms

    def send_back(self, group: str, topic: str, count: int = 1) -> None:
        """Count messages that a group sent back into *topic*."""
        tally = self._send_back[topic, group]
        tally.messages += count
        tally.times += 1

    def fall_time(self, group: str, topic: str, queue_id: int, ms: int) -> None:
        """Count the age of the messages that the group reads in a queue."""
        _set_bounded(self._fall_ms, (queue_id, topic, group), ms, self._keys_max)

    def fall_size(self, group: str, topic: str, queue_id: int, size: int) -> None:
        """Count the lag of the group in a queue, in bytes of the log."""
        _set_bounded(self._fall_bytes, (queue_id, topic, group), size, self._keys_max)

    # Reading

    @property
    def store(self) -> StoreStats:
        """The statistics of the store."""
        self._collect()
        return self._store

    def view(self, stats_name: str, stats_key: str) -> StatsView | None:
        """Return one counter by Java's name and key; None if nothing was counted under them."""
        tally = self._find(stats_name, stats_key)
        if tally is None:
            return None
        figures = tally.byte_figures if stats_name.endswith("_SIZE") else tally.message_figures
        return StatsView(figures(Window.MINUTE), figures(Window.HOUR), figures(Window.DAY))

    def group_get_tps(self, group: str, topic: str) -> float:
        """Return the messages per second that the group was sent in the last minute."""
        tally = self._group_get.get((topic, group))
        return tally.message_figures(Window.MINUTE).tps if tally is not None else 0.0

    def topic_put_tps(self, topic: str) -> float:
        """Return the messages per second that were stored in the last minute."""
        self._collect()
        tally = self._topic_put.get(topic)
        return tally.message_figures(Window.MINUTE).tps if tally is not None else 0.0

    def put_totals(self) -> "Totals":
        """Return the tallies of stored messages since the start, by topic."""
        self._collect()
        return Totals(("topic",), ((topic,) for topic in self._topic_put), self._topic_put.values())

    def get_totals(self) -> "Totals":
        """Return the tallies of sent messages since the start, by topic and group."""
        return Totals(("topic", "group"), self._group_get, self._group_get.values())

    def send_back_totals(self) -> "Totals":
        """Return the tallies of messages sent back since the start, by topic and group."""
        return Totals(("topic", "group"), self._send_back, self._send_back.values())

    def fallen_behind(self, size_max: int) -> dict[str, int]:
        """Return the groups that read more than *size_max* bytes behind the end of the log, with their lag."""
        behind: dict[str, int] = {}
        for (_, _, group), size in self._fall_bytes.items():
            if size > size_max:
                behind[group] = max(size, behind.get(group, 0))
        return behind

    def _find(self, stats_name: str, stats_key: str) -> Tally | None:
        self._collect()
        words = stats_key.split("@")
        match stats_name, words:
            case (("TOPIC_PUT_NUMS" | "TOPIC_PUT_SIZE"), [topic]):
                return self._topic_put.get(topic)
            case (("QUEUE_PUT_NUMS" | "QUEUE_PUT_SIZE"), [topic, queue]) if _is_number(queue):
                return self._queue_put.get((topic, int(queue)))
            case (("GROUP_GET_NUMS" | "GROUP_GET_SIZE"), [topic, group]):
                return self._group_get.get((topic, group))
            case "SNDBCK_PUT_NUMS", [topic, group]:
                return self._send_back.get((topic, group))
            case (("QUEUE_GET_NUMS" | "QUEUE_GET_SIZE"), [topic, queue, group]) if _is_number(queue):
                return self._queue_get.get((int(queue), topic, group))
            case "GROUP_GET_LATENCY", [queue, topic, group] if _is_number(queue):
                return self._latency.get((int(queue), topic, group))
            case "BROKER_PUT_NUMS", [self._cluster_name]:
                return self._broker_put
            case "BROKER_GET_NUMS", [self._cluster_name]:
                return self._broker_get
        return None

    # Samples and removal

    def tick(self) -> None:
        """Take the samples that are due. Call it once a second."""
        now_ms = self._now_ms()
        self._collect()
        self._sampler.tick(now_ms)
        self._store.tick(now_ms)

    def remove_topic(self, topic: str) -> None:
        """Remove the counters of a deleted topic."""
        self._collect()
        self._topic_put.drop(topic)
        self._forget(
            queue=lambda key: key[0] == topic, group=lambda key: key[0] == topic, place=lambda key: key[1] == topic
        )

    def remove_group(self, group: str) -> None:
        """Remove the counters of a deleted group."""
        self._forget(group=lambda key: key[1] == group, place=lambda key: key[2] == group)

    def _forget(
        self,
        *,
        queue: Callable[[_QueueOfTopic], bool] | None = None,
        group: Callable[[_GroupOfTopic], bool],
        place: Callable[[_QueueOfGroup], bool],
    ) -> None:
        if queue is not None:
            for queue_key in [key for key in self._queue_put if queue(key)]:
                self._queue_put.drop(queue_key)
        for by_group in (self._group_get, self._send_back):
            for group_key in [key for key in by_group if group(key)]:
                by_group.drop(group_key)
        for by_place in (self._queue_get, self._latency):
            for place_key in [key for key in by_place if place(key)]:
                by_place.drop(place_key)
        for falls in (self._fall_ms, self._fall_bytes):
            for place_key in [key for key in falls if place(key)]:
                del falls[place_key]


def _set_bounded(table: dict[_QueueOfGroup, int], key: _QueueOfGroup, value: int, keys_max: int) -> None:
    if len(table) < keys_max or key in table:
        table[key] = value


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
