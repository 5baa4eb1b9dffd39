"""A broker that is killed while the sink sends, and comes back: every row arrives, and deduplicated each once."""

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from hanabi.spark.sink.options import parse_sink_options
from hanabi.spark.sink.row_ids import ROW_ID_PROPERTY, RowIds
from hanabi.spark.sink.writer import send_rows
from hanabi.testing.waiting import wait_until
from tests.faults.our_servers import OurServers
from tests.spark.broker_world import make_topic, rows

COUNT, A_BATCH = 4_000, 50


class Restarting:
    """The servers, as `broker_world` wants them."""

    def __init__(self, servers: OurServers) -> None:
        self.servers, self.namesrv = servers, servers.namesrv
        self.broker = servers.process.wait_for_line("ready broker ").split()[-1]


def test_a_task_goes_on_when_its_broker_is_back(tmp_path: Path) -> None:
    servers = OurServers(tmp_path / "servers")
    try:
        servers.wait_ready()
        world = Restarting(servers)
        topic = make_topic(world, "Rows")
        sent, restarted = threading.Event(), threading.Event()

        def batches() -> Iterator[pa.RecordBatch]:
            for first in range(0, COUNT, A_BATCH):
                if first == COUNT // 2:
                    sent.set()  # the broker dies under what comes now
                yield pa.record_batch({"body": [b"%d" % number for number in range(first, first + A_BATCH)]})

        def restart() -> None:
            sent.wait()
            servers.process.kill()
            servers.start_again()
            restarted.set()

        killer = threading.Thread(target=restart)
        killer.start()
        options = parse_sink_options({"namesrv": servers.namesrv, "topic": topic})
        assert send_rows(options, batches(), RowIds("query/0", 0)) == COUNT
        killer.join()
        assert restarted.is_set()
        found: list[dict[str, object]] = []

        def is_complete() -> bool:
            found[:] = rows(world, "body properties", subscribe=topic)
            return len(found) >= COUNT

        wait_until(is_complete, "all rows", seconds=600)
        by_stamp = {dict(row["properties"])[ROW_ID_PROPERTY]: row["body"] for row in found}  # type: ignore[call-overload]
        assert Counter(by_stamp.values()) == Counter(b"%d" % number for number in range(COUNT))
    finally:
        servers.process.kill()
