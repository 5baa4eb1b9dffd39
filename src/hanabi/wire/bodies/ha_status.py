"""The state of replication, as `mqadmin haStatus` of 5.x shows it. Agrees with Java's HARuntimeInfo."""

from hanabi.wire.body import Body, written, written_new
from hanabi.wire.header import Int32, Int64


class HAClientStatus(Body, frozen=True, kw_only=True):
    """A slave's own state; all zeros at a master."""

    last_read_timestamp: Int64 = written(0)
    last_write_timestamp: Int64 = written(0)
    master_addr: str | None = None
    master_flush_offset: Int64 = written(0)
    max_offset: Int64 = written(0)
    transferred_byte_in_second: Int64 = written(0)


class HAConnectionStatus(Body, frozen=True, kw_only=True):
    """One slave, as its master sees it."""

    addr: str
    diff: Int64 = written(0)
    in_sync: bool = written(False)
    slave_ack_offset: Int64 = written(0)
    transfer_from_where: Int64 = written(0)
    transferred_byte_in_second: Int64 = written(0)


class HAStatus(Body, frozen=True, kw_only=True):
    """The reply to 907."""

    ha_client_runtime_info: HAClientStatus = written_new(HAClientStatus)
    ha_connection_info: list[HAConnectionStatus] = written_new(list)
    in_sync_slave_nums: Int32 = written(0)
    master: bool = written(False)
    master_commit_log_max_offset: Int64 = written(0)
