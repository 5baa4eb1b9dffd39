"""A store with everything that makes messages wait, a clock that stands still, and ways to stop it and to kill it."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from hanabi.broker.config import BrokerConfig
from hanabi.broker.delay.divert import Diverter, may_divert
from hanabi.broker.delay.level_delivery import DelayedDelivery
from hanabi.broker.delay.timer_delivery import Timer
from hanabi.broker.settings import Settings
from hanabi.store.config import StoreConfig
from hanabi.store.indexer import Dispatched, Hooks
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import MessageStore, PutResult, PutStatus
from hanabi.testing.clock import ManualClock
from hanabi.wire.delay_levels import parse_delay_levels
from hanabi.wire.message.properties import encode_properties
from hanabi.wire.message.record import Record
from hanabi.wire.system_names import SCHEDULE_TOPIC, TIMER_TOPIC
from tests.store.opened import opened
from tests.store.stores import HOST, read_queue

SECOND: Final = 1_000
HOUR: Final = 3_600_000
DAY: Final = 24 * HOUR
WAITING: Final = (SCHEDULE_TOPIC, TIMER_TOPIC)


def message(body: bytes = b"hello", *, topic: str = "T", queue_id: int = 0, **properties: object) -> PendingMessage:
    """Return a message as a send handler hands it over."""
    return message_with(properties, body, topic=topic, queue_id=queue_id)


def message_with(
    properties: Mapping[str, object], body: bytes = b"hello", *, topic: str = "T", queue_id: int = 0
) -> PendingMessage:
    raw = encode_properties({name: str(value) for name, value in properties.items()})
    return PendingMessage(topic, queue_id, body, raw, born_timestamp_ms=1, born_host=HOST, store_host=HOST)


class World:
    """One life of a broker's delays. The files are the next one's too."""

    def __init__(
        self,
        home: Path,
        clock: ManualClock | None = None,
        *,
        broker: BrokerConfig | None = None,
        file_reserved_hours: int = 72,
        segment_bytes: int = 1 << 16,
        consume_queue_ext_enabled: bool = False,
    ) -> None:
        self.home, self.clock = home, clock or ManualClock()
        self._broker = broker or BrokerConfig(broker_name="broker-a")
        store_config = StoreConfig(
            root=str(home),
            commit_log_segment_bytes=segment_bytes,
            consume_queue_segment_bytes=2_000,
            consume_queue_ext_enabled=consume_queue_ext_enabled,
            consume_queue_ext_segment_bytes=4_096,
            index_enabled=False,
            file_reserved_hours=file_reserved_hours,
        )
        self._store_config = store_config
        settings = Settings(self._broker, store_config)
        levels = parse_delay_levels(self._broker.message_delay_levels)
        self.store = opened(
            MessageStore.open(
                store_config,
                now_ms=self.clock,
                hooks=Hooks(on_append=self._on_append, deliver_time_ms=levels.deliver_time_ms),
                disk_ratio=lambda _: 0.1,
                memory_bytes=1 << 30,
            )
        )
        self.refuse: Callable[[PendingMessage], PutStatus | None] = lambda _: None
        self.deliveries: list[PendingMessage] = []
        self.diverter = Diverter(levels, settings, self.clock)
        self.levels = DelayedDelivery(self.store, self.put_as_is, levels, home / "config", settings, self.clock)
        self.timer = Timer(self.store, self.put_as_is, home / "timer", settings, self.clock)

    def _on_append(self, dispatched: Dispatched) -> None:
        self.levels.arrived(dispatched)
        self.timer.arrived(dispatched)

    def put(self, pending: PendingMessage) -> None:
        """Put as `Intake.put` does."""
        if may_divert(pending.properties):
            pending = self.diverter.divert(pending)
        assert self.store.put(pending).status is PutStatus.PUT_OK

    def put_as_is(self, pending: PendingMessage) -> PutResult:
        status = self.refuse(pending)
        if status is not None:
            return PutResult(status, reason="as the test wants it")
        self.deliveries.append(pending)
        return self.store.put(pending)

    def deliver(self) -> None:
        """Everything that is due now."""
        for step in (self.levels.step, self.timer.step):
            while step() <= self.clock.ms:
                pass

    def pass_time(self, milliseconds: int) -> None:
        self.clock.ms += milliseconds
        self.deliver()

    def read(self, topic: str = "T", queue_id: int = 0) -> list[Record]:
        return read_queue(self.store, topic, queue_id)

    def bodies(self, topic: str = "T", queue_id: int = 0) -> list[bytes]:
        return [record.body for record in self.read(topic, queue_id)]

    def tags_codes(self, topic: str, queue_id: int, offset: int, count: int) -> list[int | None]:
        entries = self.store.queries.entries(topic, queue_id, offset, count) or []
        return [entry.known_tags_code for entry in entries]

    def save(self) -> None:
        self.levels.save()
        self.timer.save()

    def next_life(self, **changes: object) -> "World":
        """Stop as one should, and start again."""
        self.save()
        self.store.close()
        return self._again(self.home, changes)

    def killed(self, home: Path, **changes: object) -> "World":
        """Return what starts in *home* from the files as they are this moment."""
        shutil.copytree(self.home, home)
        self.store.close()
        return self._again(home, changes)

    def _again(self, home: Path, changes: dict[str, object]) -> "World":
        settings: dict[str, object] = {
            "broker": self._broker,
            "file_reserved_hours": self._store_config.file_reserved_hours,
            "segment_bytes": self._store_config.commit_log_segment_bytes,
            "consume_queue_ext_enabled": self._store_config.consume_queue_ext_enabled,
        }
        settings.update(changes)
        return World(home, self.clock, **settings)  # type: ignore[arg-type]
