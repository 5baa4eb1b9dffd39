"""Settings in force, and changes of them over the wire.

Any peer can ask for a change, so there is a list of changeable settings; it has no path, port, address, identity or
command (CVE-2023-33246 ran commands that way). Changes are stored in a separate file, which only this module writes,
and are in force again after a restart.

Both structs are replaced as a whole: read `settings.broker.permission` at the moment of use.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from hanabi.broker.config import BROKER_KEYS, BrokerConfig, as_properties, parse_broker_config
from hanabi.broker.ignored_keys import IGNORED_KEYS
from hanabi.broker.replica.roles import BrokerRole
from hanabi.durable_table import DurableTable
from hanabi.errors import NoPermission
from hanabi.remoting.started_threads import in_own_thread
from hanabi.store.config import STORE_KEYS, StoreConfig
from hanabi.wire.java_properties import decode_properties, format_properties
from hanabi.wire.settings_text import shortened

CHANGEABLE = frozenset(
    {
        # access control
        "accountQuotas",
        # topics and groups
        "brokerPermission",
        "autoCreateTopicEnable",
        "autoCreateSubscriptionGroup",
        "defaultTopicQueueNums",
        "traceOn",
        # sends and pulls
        "brokerFastFailureEnable",
        "waitTimeMillsInSendQueue",
        "startAcceptSendRequestTimeStamp",
        "rejectTransactionMessage",
        "storeReplyMessageEnable",
        "longPollingEnable",
        "shortPollingTimeMills",
        "slaveReadEnable",
        "notifyConsumerIdsChangedEnable",
        "disableConsumeIfConsumerReadSlowly",
        "consumerFallbehindThreshold",
        "osPageCacheBusyTimeOutMills",
        "maxMessageSize",
        "maxTransferBytesOnMessageInMemory",
        "maxTransferCountOnMessageInMemory",
        "maxTransferBytesOnMessageInDisk",
        "maxTransferCountOnMessageInDisk",
        "accessMessageInMemoryMaxRatio",
        "defaultQueryMaxNum",
        "maxMsgsNumBatch",
        # POP
        "enableRetryTopicV2",
        "defaultMessageRequestMode",
        "defaultPopShareQueueNum",
        # filters
        "enablePropertyFilter",
        "filterSupportRetry",
        "filterDataCleanTimeSpan",
        # transactions and delays
        "transactionTimeOut",
        "transactionCheckMax",
        "transactionCheckInterval",
        "timerMaxDelaySec",
        "recallMessageEnable",
        # registration
        "forceRegister",
        "compressedRegister",
        "registerBrokerTimeoutMills",
        # files: when they are flushed and how long they are kept
        "flushConsumerOffsetInterval",
        "flushDelayOffsetInterval",
        "flushIntervalCommitLog",
        "flushCommitLogLeastPages",
        "flushCommitLogThoroughInterval",
        "flushIntervalConsumeQueue",
        "flushConsumeQueueLeastPages",
        "flushConsumeQueueThoroughInterval",
        "syncFlushTimeout",
        "fileReservedTime",
        "deleteWhen",
        "diskMaxUsedSpaceRatio",
        "cleanFileForciblyEnable",
        # replication
        "haTransferBatchSize",
        "haSendHeartbeatInterval",
        "haHousekeepingInterval",
        "haFlowControlEnable",
        "maxHaTransferByteInSecond",
        "slaveTimeout",
        "haSlaveFallbehindMax",
        "haMaxGapNotInSync",
        "inSyncReplicas",
        "minInSyncReplicas",
        "enableAutoInSyncReplicas",
        "allAckInSyncStateSet",
        "haMaxTimeSlaveNotCatchup",
        "fenceWithoutController",
        "offsetCheckInSlave",
        # statistics
        "enableDetailStat",
        "autoDeleteUnusedStats",
    }
)

logger = logging.getLogger(__name__)


class _Change(NamedTuple):
    asked: dict[str, str]
    kept: dict[str, str]  # all changes so far
    broker: BrokerConfig
    store: StoreConfig


class Settings:
    """The startup configuration, with all changes over it."""

    def __init__(self, broker: BrokerConfig, store: StoreConfig, path: Path | None = None) -> None:
        self._file = DurableTable(path, encode=_encode, decode=decode_properties) if path is not None else None
        kept = (self._file.load() or {}) if self._file is not None else {}
        self._changed = {key: value for key, value in kept.items() if key in CHANGEABLE}
        for key in kept:
            if key in self._changed:
                logger.info("%s=%s, changed at run time and kept in %s", key, kept[key], path)
            else:
                logger.warning("%s: %s may not be changed at run time and is not read from here", path, shortened(key))
        self.broker, self.store = parse_broker_config(self._changed, broker, store)
        self.on_change: list[Callable[[], None]] = []  # called after each change
        self._changing = asyncio.Lock()

    @property
    def is_slave(self) -> bool:
        """Return whether this broker copies a master. In controller mode that changes while it runs."""
        return self.broker.broker_role == "SLAVE"

    def use_role(self, role: BrokerRole, broker_id: int) -> None:
        """Change the role, as the controller says."""
        self.broker = msgspec.structs.replace(self.broker, broker_role=role, broker_id=broker_id)
        for callback in self.on_change:
            callback()

    async def change(self, text: bytes) -> None:
        """Apply the properties in *text*, all or none, and persist them. Does not block the loop for the disk."""
        await asyncio.shield(self._change(text))  # both stored and in force, or neither

    async def _change(self, text: bytes) -> None:
        async with self._changing:
            change = self._checked(text)
            await in_own_thread(self._keep, change)
            self._use(change)

    def update(self, text: bytes | str) -> None:
        """Apply and persist as `change` does, but block for the disk."""
        change = self._checked(text.encode() if isinstance(text, str) else text)
        self._keep(change)
        self._use(change)

    def _checked(self, text: bytes) -> "_Change":
        asked = decode_properties(text)
        for key in asked:
            if key not in CHANGEABLE:
                raise NoPermission(f"Can not update config {shortened(key)}: {_why_not(key)}")
        broker, store = parse_broker_config(asked, self.broker, self.store)
        return _Change(asked, {**self._changed, **{key: value.strip() for key, value in asked.items()}}, broker, store)

    def _keep(self, change: "_Change") -> None:
        if self._file is not None:
            self._file.save(change.kept)

    def _use(self, change: "_Change") -> None:
        self.broker, self.store, self._changed = change.broker, change.store, change.kept
        logger.info("settings changed: %s", change.asked)
        for callback in self.on_change:
            callback()

    def text(self) -> str:
        """Return all settings in force, as a properties file."""
        return format_properties({**IGNORED_KEYS, **as_properties(self.store), **as_properties(self.broker)})


def stored_changes(path: Path) -> dict[str, str]:
    """Return the stored run-time changes, which are in force again at the next start; *path* is only read."""
    kept = DurableTable(path, encode=_encode, decode=decode_properties).load() or {}
    return {key: value for key, value in kept.items() if key in CHANGEABLE}


def _why_not(key: str) -> str:
    if key in BROKER_KEYS or key in STORE_KEYS:
        return "it may be changed in the configuration file only, and then the broker started again"
    if key in IGNORED_KEYS:
        return "it has no effect in this broker"
    return "there is no such setting"


def _encode(properties: dict[str, str]) -> bytes:
    return format_properties(properties).encode()
