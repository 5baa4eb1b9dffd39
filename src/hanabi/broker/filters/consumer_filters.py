"""Filter expressions of groups: registered by heartbeats, kept across restarts, evaluated to bloom bits.

A group without members leaves its filters dead; they expire after a day (`filterDataCleanTimeSpan`). Until then their
bits are still set, so that a returning group finds its messages. Tags are not handled here.

Agrees with ConsumerFilterManager and CommitLogDispatcherCalcBitMap (4.9.8).
"""

import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec

from hanabi.broker.filters.bloom import BloomFilter
from hanabi.broker.filters.filter_data import FilterData
from hanabi.broker.filters.filter_file import filter_file, restored, stored
from hanabi.broker.filters.subscription_parsing import is_tag_type
from hanabi.broker.settings import Settings
from hanabi.errors import SubscriptionParseFailed
from hanabi.store.indexer import Dispatched
from hanabi.wire.bodies.heartbeat import SubscriptionData
from hanabi.wire.message.properties import decode_properties

__all__ = ["FILTERS_MAX", "ConsumerFilters", "FilterData"]

FILTERS_MAX: Final = 10_000
EXPRESSIONS_CHARACTERS_MAX: Final = 2 << 20  # in total; compiled they take up to ninety times as much
_COMPILE_SECONDS_MAX: Final = 0.05  # burst: a heartbeat may bring megabytes of expressions
_COMPILE_PART: Final = 0.2  # share of the time after that
_BITS_SECONDS_MAX: Final = 0.002  # for the bits of one message

_REPORTS_MAX: Final = 1_000
_DECODED_FROM: Final = 3  # from this many filters on one topic, decode the properties once for all
_LEFT_MS: Final = 60_000  # no member has sent it in two heartbeats
_CROWD: Final = 8  # beyond this multiple of the expected filters all bits would be set anyway

logger = logging.getLogger(__name__)


class ConsumerFilters:
    """All filters, by topic and by group. Used by one thread; `save` may be called from another."""

    def __init__(
        self,
        path: Path | None,
        settings: Settings,
        now_ms: Callable[[], int],
        *,
        filters_max: int = FILTERS_MAX,
        characters_max: int = EXPRESSIONS_CHARACTERS_MAX,
    ) -> None:
        """*path* is `config/consumerFilter.json`; None: nothing is persisted."""
        self._settings, self._now_ms = settings, now_ms
        self._filters_max, self._characters_max = filters_max, characters_max
        broker = settings.broker
        self._expected = broker.expected_filter_consumers
        self.bloom = BloomFilter(error_percent=broker.bloom_error_rate_max, expected=self._expected)
        self._by_topic: dict[str, dict[str, FilterData]] = {}
        self._by_group: dict[str, dict[str, FilterData]] = {}
        self._count = self._characters = 0
        self._changes = 0
        self._changes_saved: int | None = None
        self._reported: set[tuple[str, str, str]] = set()
        self._compile_seconds, self._compiled_ms = _COMPILE_SECONDS_MAX, now_ms()
        self._file = filter_file(path) if path is not None else None
        content = self._file.load() if self._file is not None else None
        if content is not None:
            for data in restored(content, self.bloom, now_ms()):
                self._put(data)

    def __len__(self) -> int:
        return self._count

    def find(self, topic: str, group: str) -> FilterData | None:
        """Return the filter of *group* on *topic*, dead or alive."""
        filters = self._by_topic.get(topic)
        return filters.get(group) if filters is not None else None

    def register(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """Set the subscriptions of *group*; its filters on other topics become dead."""
        wanted = set()
        for subscription in subscriptions:
            if subscription.sub_string and not is_tag_type(subscription.expression_type):
                wanted.add(subscription.topic)
                self._register(group, subscription)
        for data in list(self._by_group.get(group, {}).values()):
            if data.topic not in wanted:
                self._bury(data)

    def unregister(self, group: str) -> None:
        """Mark all filters of *group* dead: it has no members any more."""
        for data in list(self._by_group.get(group, {}).values()):
            self._bury(data)

    def filter_bits(self, dispatched: Dispatched) -> bytes | None:
        """Return the bits of all groups whose filters match this message; None if its topic has no filters, or if bits
        are disabled. This is the store's hook."""
        filters = self._by_topic.get(dispatched.topic)
        if filters is None or not self._settings.broker.filter_bitmap_enabled:
            return None
        if len(filters) > _CROWD * self._expected:
            return b"\xff" * (self.bloom.bits // 8)
        raw, mask, until = dispatched.properties, 0, time.monotonic() + _BITS_SECONDS_MAX
        properties = decode_properties(raw) if len(filters) >= _DECODED_FROM else None
        for data in filters.values():
            compiled = data.compiled
            # Bits have false positives anyway: setting them unevaluated only costs the reader a look at the message.
            if time.monotonic() > until or (
                compiled.matches(properties) if properties is not None else compiled.matches_raw(raw)
            ):
                mask |= data.mask
        return self.bloom.bitmap(mask)

    def tick(self) -> None:
        """Remove filters that have been dead for too long. Call it periodically."""
        for data in self._all():
            if self._is_over(data):
                self._remove(data)
                logger.info("the filter of %s on %s is removed: its group is gone", data.group, data.topic)

    def save(self) -> None:
        """Write the file if anything changed. Blocks."""
        changes = self._changes  # read first: later changes are for the next save
        if self._file is not None and changes != self._changes_saved:
            self._file.save(stored(data for data in self._all() if not self._is_over(data)))
            self._changes_saved = changes

    def _all(self) -> list[FilterData]:
        # Copies, each in one step, as `save` runs in another thread.
        return [data for filters in list(self._by_topic.values()) for data in list(filters.values())]

    def _register(self, group: str, subscription: SubscriptionData) -> None:
        topic, version = subscription.topic, subscription.sub_version
        old = self.find(topic, group)
        if old is not None:
            changed = (subscription.sub_string, subscription.expression_type) != (old.expression, old.expression_type)
            if version <= old.client_version and (changed or version < old.client_version) and not self._is_left(old):
                return  # from a member that does not know the newest version yet
            if not changed:
                if old.is_dead or version != old.client_version:
                    self._put(msgspec.structs.replace(old, client_version=version, dead_ms=0))
                return
        if not self._may_compile_now():
            self._report(group, topic, "too many expressions at once: it waits for the next heartbeat")
            return
        began = time.thread_time()
        try:
            data = FilterData.build(
                topic,
                group,
                subscription.sub_string or "",
                subscription.expression_type,
                version,
                born_ms=self._now_ms(),
                bloom=self.bloom.positions(f"{group}#{topic}"),
            )
        except SubscriptionParseFailed as error:
            if old is not None:
                self._remove(old)  # its pulls shall fail, so that the mistake is noticed
            self._report(group, topic, str(error))
            return
        finally:
            self._compile_seconds -= time.thread_time() - began
        if not self._make_room(data, old):
            self._report(group, topic, "there are too many filters already, or they are too long")
            return
        self._put(data)
        logger.info("group %s filters %s by %s", group, topic, _shortened(data.expression))
        if data.compiled.ignored:
            logger.warning(
                "group %s, topic %s: text behind the expression is ignored: %s",
                group,
                topic,
                _shortened(data.compiled.ignored),
            )

    def _may_compile_now(self) -> bool:
        now_ms = self._now_ms()
        more = max(now_ms - self._compiled_ms, 0) / 1000 * _COMPILE_PART
        self._compile_seconds, self._compiled_ms = min(self._compile_seconds + more, _COMPILE_SECONDS_MAX), now_ms
        return self._compile_seconds > 0

    def _make_room(self, data: FilterData, old: FilterData | None) -> bool:
        """Return whether there is room for *data*, after evicting the longest dead if necessary."""
        if old is not None:
            self._remove(old)
        if self._has_room(data):
            return True
        for dead in sorted((other for other in self._all() if other.is_dead), key=lambda other: other.dead_ms):
            self._remove(dead)
            if self._has_room(data):
                return True
        return False

    def _has_room(self, data: FilterData) -> bool:
        return self._count < self._filters_max and self._characters + len(data.expression) <= self._characters_max

    def _bury(self, data: FilterData) -> None:
        if not data.is_dead:
            self._put(msgspec.structs.replace(data, dead_ms=max(self._now_ms(), data.born_ms)))

    def _is_left(self, data: FilterData) -> bool:
        """Return whether the members that sent *data* are gone.

        The clocks of new members may be behind, and then so are their versions; Apache would filter by the old
        expression for a day.
        """
        return data.is_dead and self._now_ms() - data.dead_ms >= _LEFT_MS

    def _is_over(self, data: FilterData) -> bool:
        return data.is_dead and self._now_ms() - data.dead_ms >= self._settings.broker.filter_clean_span_ms

    def _put(self, data: FilterData) -> None:
        """Store *data*, replacing the previous filter."""
        old = self.find(data.topic, data.group)
        if old is None:
            self._count += 1
        else:
            self._characters -= len(old.expression)
        self._characters += len(data.expression)
        self._by_topic.setdefault(data.topic, {})[data.group] = data
        self._by_group.setdefault(data.group, {})[data.topic] = data
        self._changes += 1  # last, as `save` may read it in another thread

    def _remove(self, data: FilterData) -> None:
        for table, first, second in (
            (self._by_topic, data.topic, data.group),
            (self._by_group, data.group, data.topic),
        ):
            del table[first][second]
            if not table[first]:
                del table[first]
        self._count -= 1
        self._characters -= len(data.expression)
        self._changes += 1

    def _report(self, group: str, topic: str, reason: str) -> None:
        """Log a refusal once, not with every heartbeat."""
        if (group, topic, reason) in self._reported:
            return
        if len(self._reported) >= _REPORTS_MAX:
            self._reported.clear()
        self._reported.add((group, topic, reason))
        logger.warning("the filter of group %s on topic %s is refused: %s", group, topic, reason)


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}... ({len(text)} characters)"
