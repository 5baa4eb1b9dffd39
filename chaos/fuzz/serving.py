"""The servers as `hanabi serve` runs them, which also tell what they hold: python -m chaos.fuzz.serving CONF HOME FILE.

A name server and a broker, each on a free port, in one process; every second a line of FILE says how many tasks,
objects, threads, descriptors and bytes of memory there are. Only the process itself knows its tasks.
"""

import asyncio
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from chaos.fuzz.vitals import read_vitals
from hanabi.broker.config import read_broker_config
from hanabi.cli.logs.log_output import LogLevel, configure_logging
from hanabi.cli.serve.serving import BrokerToStart, Namesrv, serve
from hanabi.namesrv.config import NamesrvConfig
from hanabi.remoting.loop import run
from hanabi.remoting.transport.descriptors import raise_descriptor_limit

EVERY_S: Final = 1.0
LOOK_S: Final = 0.02


async def main(conf: Path, home: Path, file: Path) -> None:
    broker, store = read_broker_config(conf)
    store = msgspec.structs.replace(store, root=str(home / "store"))
    host = "127.0.0.1"
    telling = asyncio.create_task(_keep_telling(file))
    try:
        await serve(
            Namesrv(config=NamesrvConfig(), home=home / "namesrv", host=host, port=0, tls=None),
            BrokerToStart(config=broker, store=store, host=host, port=0, tls=None),
        )
    finally:
        telling.cancel()
        with suppress(asyncio.CancelledError):
            await telling


async def _keep_telling(file: Path) -> None:
    with file.open("ab", buffering=0) as lines:
        while True:
            busy_s = await _watch(EVERY_S)
            lines.write(msgspec.json.encode(read_vitals(busy_s)) + b"\n")


async def _watch(seconds: float) -> float:
    """Return the most processor time that this thread took between two looks, in so many *seconds*."""
    ends, busy_s, before = time.monotonic() + seconds, 0.0, time.thread_time()
    while time.monotonic() < ends:
        await asyncio.sleep(LOOK_S)
        now = time.thread_time()
        busy_s, before = max(busy_s, now - before), now
    return busy_s


if __name__ == "__main__":
    configure_logging(LogLevel.INFO, as_json=False)
    raise_descriptor_limit()
    run(main(*map(Path, sys.argv[1:])))
