"""Replies to failed puts: Apache's codes and remarks, followed by the local cause.

Agrees with Java's SendMessageProcessor.handlePutMessageResult.
"""

from collections.abc import Mapping
from typing import Final

from hanabi.store.config import StoreConfig
from hanabi.store.files.disk import used_ratio
from hanabi.store.message_store import PutResult, PutStatus
from hanabi.wire.codes import ResponseCode

# The message is stored, but less durably than requested.
STORED: Final[Mapping[PutStatus, int]] = {
    PutStatus.PUT_OK: ResponseCode.SUCCESS,
    PutStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    PutStatus.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    PutStatus.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
}


def refusal(result: PutResult, config: StoreConfig) -> tuple[int, str]:
    """Return code and remark for a message that was not stored."""
    code, remark = _apache_says(result.status, config)
    return code, f"{remark} ({result.reason})" if result.reason else remark


def _apache_says(status: PutStatus, config: StoreConfig) -> tuple[int, str]:
    match status:
        case PutStatus.MESSAGE_ILLEGAL | PutStatus.PROPERTIES_SIZE_EXCEEDED:
            return ResponseCode.MESSAGE_ILLEGAL, (
                "the message is illegal, maybe msg body or properties length not matched. "
                f"msg body length limit {config.message_bytes_max}B, msg properties length limit 32KB."
            )
        case PutStatus.SERVICE_NOT_AVAILABLE:
            return ResponseCode.SERVICE_NOT_AVAILABLE, (
                "service not available now. It may be caused by one of the following reasons: "
                f"the broker's disk is full [{_disk_use(config)}], messages are put to the slave, "
                "message store has been shut down, etc."
            )
        case PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH:
            return ResponseCode.SYSTEM_ERROR, "in-sync replicas not enough"
        case PutStatus.CREATE_MAPPED_FILE_FAILED:
            return ResponseCode.SYSTEM_ERROR, "create mapped file failed, server is busy or broken."
        case PutStatus.OS_PAGECACHE_BUSY:
            return ResponseCode.SYSTEM_ERROR, "[PC_SYNCHRONIZED]broker busy, start flow control for a while"
    return ResponseCode.SYSTEM_ERROR, status.value


def _disk_use(config: StoreConfig) -> str:
    places = (("CL", config.commit_log_path), ("CQ", config.consume_queue_path), ("INDEX", config.index_path))
    return " ".join(f"{name}: {used_ratio(path):5.2f}" for name, path in places)
