"""Current settings for sends, in the form that the handler and the fast path need."""

import os
from collections.abc import Callable
from datetime import datetime

from hanabi.broker.config import BrokerConfig
from hanabi.broker.send.flow_control import FlowControl
from hanabi.broker.send.put_replies import refusal
from hanabi.broker.send.store_host import StoreHost
from hanabi.broker.send.stored_properties import RecordForm, form_of_4_9, form_of_5
from hanabi.broker.settings import Settings
from hanabi.errors import BrokerError, StoreIsCopy, SystemBusy
from hanabi.store.message_store import COPIES_ONLY, PutResult, PutStatus
from hanabi.wire.command import V5_0_0
from hanabi.wire.message.message_id import UniqueIds


class SendRules:
    """Cached rules for sends. `is_open` refreshes them when the settings are replaced: call it before anything else."""

    def __init__(self, settings: Settings, flow: FlowControl, store_host: StoreHost, now_ms: Callable[[], int]) -> None:
        self._settings, self._flow, self.store_host, self._now_ms = settings, flow, store_host, now_ms
        self._new_key = unique_ids(store_host, now_ms).make
        self._read(settings.broker)

    def _read(self, config: BrokerConfig) -> None:
        self.config, self._is_slave = config, self._settings.is_slave
        self.region, self.trace_on = config.region_id, str(config.trace_on).lower()
        self.form_4 = form_of_4_9(config.cluster_name)
        self.form_5 = form_of_5(config.cluster_name, self.region, self.trace_on, self._new_key)

    def is_open(self) -> bool:
        """Return whether sends are accepted without further checks."""
        if self._settings.broker is not self.config:
            self._read(self._settings.broker)
        return self._flow.busy is None and not self.config.start_accept_sends_at_ms and not self._is_slave

    def check_open(self) -> None:
        """Raise the reason why sends are refused now, if there is one."""
        if self._is_slave:
            _, remark = refusal(PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason=COPIES_ONLY), self._settings.store)
            raise StoreIsCopy(remark)
        if self._flow.busy is not None:
            raise SystemBusy(self._flow.busy)
        at_ms = self.config.start_accept_sends_at_ms
        if at_ms and self._now_ms() < at_ms:
            raise BrokerError(f"broker unable to service, until {_moment(at_ms)}")

    def form(self, version: int) -> RecordForm:
        """Return the form of records for clients of *version*."""
        return self.form_4 if version < V5_0_0 else self.form_5


def unique_ids(store_host: StoreHost, now_ms: Callable[[], int]) -> UniqueIds:
    """Return the generator of keys for messages without one, as Java's MessageClientIDSetter makes them."""
    return UniqueIds(now_ms, ip=store_host.raw[:-4], process_id=os.getpid(), loader_hash=now_ms())


def _moment(at_ms: int) -> str:
    """Format a time as Apache does, or as a number if it is beyond the calendar's end: 2^63 - 1 means never."""
    try:
        at = datetime.fromtimestamp(at_ms / 1000).astimezone()
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms after 1970"
    return f"{at:%Y-%m-%d %H:%M:%S},{at_ms % 1000:03d}"
