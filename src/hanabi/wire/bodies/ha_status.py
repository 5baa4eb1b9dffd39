"""The state of replication, as `mqadmin haStatus` of 5.x shows it. Agrees with Java's HARuntimeInfo."""

from hanabi.wire.body import Body, always_written, always_written_new
from hanabi.wire.header import Int32, Int64


class HAClientStatus(Body, frozen=True, kw_only=True):
    """A slave's own state; all zeros at a master. Only Hanabi's slaves send `trouble`, why they do not follow,
    and its kind if they refuse the master."""

    last_read_timestamp: Int64 = always_written(0)
    last_write_timestamp: Int64 = always_written(0)
    master_addr: str | None = None
    master_flush_offset: Int64 = always_written(0)
    max_offset: Int64 = always_written(0)
    transferred_byte_in_second: Int64 = always_written(0)
    trouble: str | None = None
    trouble_kind: str | None = None


class HAConnectionStatus(Body, frozen=True, kw_only=True):
    """One slave, as its master sees it. Only Hanabi's masters send `lag_millis`: for how long it has lagged."""

    addr: str
    diff: Int64 = always_written(0)
    in_sync: bool = always_written(False)
    lag_millis: Int64 | None = None
    slave_ack_offset: Int64 = always_written(0)
    transfer_from_where: Int64 = always_written(0)
    transferred_byte_in_second: Int64 = always_written(0)


class HAStatus(Body, frozen=True, kw_only=True):
    """The reply to 907."""

    ha_client_runtime_info: HAClientStatus = always_written_new(HAClientStatus)
    ha_connection_info: list[HAConnectionStatus] = always_written_new(list)
    in_sync_slave_nums: Int32 = always_written(0)
    master: bool = always_written(False)
    master_commit_log_max_offset: Int64 = always_written(0)
