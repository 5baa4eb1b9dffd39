"""The answer to GET_BROKER_HA_STATUS, in the words of Apache 5.3."""

from hanabi.replication.ha_status import master_status, slave_status
from hanabi.replication.master import SlaveState
from hanabi.replication.slave import SlaveView
from hanabi.wire.fastjson import encode_body


def test_a_master_tells_what_each_slave_holds() -> None:
    slave = SlaveState(
        address="192.0.2.7:41000",
        held_offset=90,
        sent_offset=95,
        lag_bytes=10,
        lag_seconds=1.5,
        is_in_sync=True,
        bytes_per_second=7,
    )
    assert encode_body(master_status([slave], 100)) == (
        b'{"haClientRuntimeInfo":{"lastReadTimestamp":0,"lastWriteTimestamp":0,'
        b'"masterFlushOffset":0,"maxOffset":0,"transferredByteInSecond":0},'
        b'"haConnectionInfo":[{"addr":"192.0.2.7:41000","diff":10,"inSync":true,"lagMillis":1500,"slaveAckOffset":90,'
        b'"transferFromWhere":95,"transferredByteInSecond":7}],'
        b'"inSyncSlaveNums":1,"master":true,"masterCommitLogMaxOffset":100}'
    )


def test_a_slave_tells_when_it_last_heard_of_its_master() -> None:
    view = SlaveView(
        master_address="192.0.2.1:10912",
        is_connected=True,
        end_offset=90,
        received_bytes=50,
        bytes_per_second=7,
        silent_seconds=1.5,
        unreported_seconds=0.25,
        trouble="",
    )
    client = slave_status(view, 10_000).ha_client_runtime_info
    assert (client.last_read_timestamp, client.last_write_timestamp) == (8_500, 9_750)
    assert (client.master_addr, client.max_offset, client.trouble) == ("192.0.2.1:10912", 90, None)


def test_a_slave_tells_why_it_does_not_follow() -> None:
    view = SlaveView(
        master_address="192.0.2.1:10912",
        is_connected=False,
        end_offset=90,
        received_bytes=50,
        bytes_per_second=0,
        silent_seconds=0.0,
        unreported_seconds=0.0,
        trouble="the logs differ",
    )
    client = slave_status(view, 10_000).ha_client_runtime_info
    assert (client.last_read_timestamp, client.trouble) == (0, "the logs differ")
