"""Apache's clients against one broker, Apache's or ours: every scenario of `java/clients` in one JVM, at the same time.

A column is a release of the client and a broker. The clients of one broker run side by side, as most of their time is
waiting; one broker after the other, as a machine has only so many processors.
"""

import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tests.interop.apache import QUICK_START, TIMERS, ApacheBroker, java, java_environment
from tests.interop.jars import ADMIN_4, ALL_5, SERVERS_4, driver_classpath, versions
from tests.interop.ours import OurBroker, OurNameServer

CLIENTS = {versions(ADMIN_4): ADMIN_4, versions(ALL_5): ALL_5}
APACHE = {f"apache-{versions(jar_set)}": jar_set for jar_set in (SERVERS_4, ALL_5)}
OURS = "hanabi"
BROKERS = (*APACHE, OURS)

# Those that wait longest come first: many are played at once, and the others fit in beside them.
SCENARIOS = (
    "reset_offset",
    "join_and_leave_orderly",
    "join_and_leave",
    "transaction_check_back",
    "transaction_commit",
    "transaction_rollback",
    "timer",
    "retry_and_dead_letter",
    "delay_level",
    "send_sync",
    "send_async",
    "send_oneway",
    "send_batch",
    "send_compressed",
    "send_selector",
    "send_refused",
    "request_reply",
    "push_concurrently",
    "push_orderly",
    "clustering",
    "broadcasting",
    "filter_tags",
    "filter_sql",
    "filter_sql_broken",
    "consume_from_last",
    "pull",
    "lite_pull_subscribe",
    "lite_pull_assign",
    "trace",
)

# What takes a minute by default takes a second here; and nothing is refused because this machine is slow.
SETTINGS = {
    "messageDelayLevel": "1s 3s" + 16 * " 1s",
    "transactionTimeOut": 5_000,
    "transactionCheckInterval": 1_000,
    "transactionOpBatchInterval": 100,  # else 5.x asks about what was ended less than 3 s ago
    "enablePropertyFilter": "true",
    "traceTopicEnable": "true",
    "waitTimeMillsInSendQueue": 30_000,
    "osPageCacheBusyTimeOutMills": 30_000,
    "mappedFileSizeCommitLog": 1 << 26,
}

ENDED_SECONDS = 240
PATIENT_JVM = (
    *QUICK_START,
    "-Dcom.rocketmq.remoting.client.connect.timeout=20000",
    # Else a consumer whose first try failed, as a thread of its own was sending a heartbeat, waits for 20 s.
    "-Drocketmq.client.rebalance.waitInterval=2000",
)


class Column(NamedTuple):
    client: str
    broker: str


_OLD_CLIENT, _NEW_CLIENT = CLIENTS
_OLD_BROKER = next(iter(APACHE))

# What Apache's own releases cannot do with each other.
IMPOSSIBLE: dict[Column, dict[str, str]] = {
    Column(_NEW_CLIENT, _OLD_BROKER): {
        "timer": "4.9 has no timed messages",
        "lite_pull_subscribe": "4.9 does not know the request code of 5.x's lite pull",
        "lite_pull_assign": "4.9 does not know the request code of 5.x's lite pull",
        "trace": "4.9 does not store the region without which 5.x's consumers write no trace",
    },
    **{Column(_OLD_CLIENT, broker): {"timer": "4.9 has no timed messages"} for broker in BROKERS},
}


class Outcome(NamedTuple):
    """Outcome of a scenario: OK, FAILED, SKIPPED, or MISSING when the driver said nothing about it."""

    result: str
    words: str


class Driver:
    """One JVM that plays all scenarios against one broker."""

    def __init__(self, home: Path, column: Column, namesrv: str, broker: str) -> None:
        self.home = home
        scenarios = [name for name in SCENARIOS if name not in IMPOSSIBLE.get(column, {})]
        jars = driver_classpath(CLIENTS[column.client])
        command = java(home, jars, "ClientDriver", namesrv, broker, *scenarios, jvm=PATIENT_JVM)
        self._output, self._errors = (home / "stdout").open("wb"), (home / "stderr").open("wb")
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._output, stderr=self._errors, env=java_environment()
        )

    def wait(self, deadline: float) -> None:
        """Wait until it has ended, or the time has come; then its last lines are missing."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=max(deadline - time.monotonic(), 0.1))

    def outcomes(self) -> dict[str, Outcome]:
        lines = (self.home / "stdout").read_text(errors="replace").splitlines()
        results = (line.split(" ", 4) for line in lines if line.startswith("RESULT "))
        return {name: Outcome(result, " ".join(words)) for _, name, result, *words in results}

    def complaint(self, scenario: str) -> str:
        """Return what the driver printed when *scenario* failed."""
        text = (self.home / "stderr").read_text(errors="replace")
        parts = [part for part in text.split("--- ") if part.startswith(f"{scenario}\n")]
        return "\n".join(parts)[:8_000]

    def close(self) -> None:
        self._process.kill()
        self._process.wait(timeout=90)
        self._output.close()
        self._errors.close()


class Broker:
    """A broker and a name server of its own, for the clients of one or more columns."""

    def __init__(self, home: Path, name: str, stack: ExitStack) -> None:
        self._namesrv = OurNameServer(home / "namesrv")
        stack.callback(self._namesrv.process.kill)
        self._namesrv.wait_ready()
        self.namesrv = self._namesrv.address
        self._broker: ApacheBroker | OurBroker
        if name == OURS:
            self._broker = OurBroker(home / "broker", name="broker-a", namesrv=self.namesrv, settings=SETTINGS)
        else:
            self._broker = ApacheBroker(
                home / "broker",
                APACHE[name],
                name="broker-a",
                cluster="C",
                namesrv=self.namesrv,
                settings={**SETTINGS, **TIMERS},
            )
        stack.callback(self._broker.process.kill)

    def wait_ready(self) -> str:
        """Return its address, when clients can find it."""
        self._broker.wait_ready()
        return self._broker.address


@contextmanager
def played(home: Path, columns: Iterable[Column]) -> Iterator[dict[Column, Driver]]:
    """Play all scenarios in *columns*; what came of it can be read until the end of the context."""
    wanted = list(columns)
    with ExitStack() as stack:
        brokers = {
            name: Broker(home / name, name, stack)
            for name in BROKERS
            if any(name == column.broker for column in wanted)
        }
        addresses = {name: broker.wait_ready() for name, broker in brokers.items()}
        drivers: dict[Column, Driver] = {}
        for name, broker in brokers.items():
            deadline = time.monotonic() + ENDED_SECONDS
            together = [column for column in wanted if column.broker == name]
            for column in together:
                folder = home / f"client-{column.client}-{name}"
                drivers[column] = Driver(folder, column, broker.namesrv, addresses[name])
                stack.callback(drivers[column].close)
            for column in together:
                drivers[column].wait(deadline)
        yield drivers
