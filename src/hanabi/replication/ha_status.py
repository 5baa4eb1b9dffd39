"""Reply to GET_BROKER_HA_STATUS (907), from the state of a master or a slave. Pure."""

from collections.abc import Sequence

from hanabi.replication.master import SlaveState
from hanabi.replication.slave import SlaveView
from hanabi.wire.bodies.ha_status import HAClientStatus, HAConnectionStatus, HAStatus


def master_status(slaves: Sequence[SlaveState], end_offset: int) -> HAStatus:
    """Return the state of a master whose log ends at *end_offset*."""
    return HAStatus(
        master=True,
        master_commit_log_max_offset=end_offset,
        in_sync_slave_nums=sum(slave.is_in_sync for slave in slaves),
        ha_connection_info=[
            HAConnectionStatus(
                addr=slave.address,
                slave_ack_offset=slave.held_offset,
                diff=slave.lag_bytes,
                in_sync=slave.is_in_sync,
                lag_millis=int(slave.lag_seconds * 1000),
                transferred_byte_in_second=slave.bytes_per_second,
                transfer_from_where=slave.sent_offset,
            )
            for slave in slaves
        ],
    )


def slave_status(view: SlaveView, now_ms: int) -> HAStatus:
    """Return the state of a slave at the wall clock's *now_ms*."""
    heard_ms = now_ms - int(view.silent_seconds * 1000) if view.is_connected else 0
    wrote_ms = now_ms - int(view.unreported_seconds * 1000) if view.is_connected else 0
    return HAStatus(
        ha_client_runtime_info=HAClientStatus(
            master_addr=view.master_address,
            max_offset=view.end_offset,
            last_read_timestamp=heard_ms,
            last_write_timestamp=wrote_ms,
            transferred_byte_in_second=view.bytes_per_second,
            trouble=view.trouble or None,
            trouble_kind=view.trouble_kind,
        )
    )
