"""Every command that asks a server, with servers that hang, close, are slow or answer garbage.

One sentence on stderr, the exit code, no traceback, and an end: `HANABI_TIMEOUT_SECONDS` is short here. A command that
never ended would meet the deadline of the whole run.
"""

import signal
import subprocess
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

import hanabi
from hanabi.cli.shared.cluster import TIMEOUT_VARIABLE
from hanabi.testing.proxied import NAMESRV, ProxiedCluster, proxied_cluster
from hanabi.testing.proxy import Proxy
from hanabi.testing.threads import Running, in_thread
from hanabi.testing.waiting import wait_until
from tests.cli.admin_commands import run
from tests.cli.commands import DEADLINE_SECONDS, HANABI, environment
from tests.cli.shapes import SHAPES

BROKER: Final = "broker-a"
SHORT_SECONDS: Final = "0.3"
BROKER_SECONDS: Final = {"hangs": "0.6"}  # a name server that answers must answer within this, on a busy machine too
LONG_SECONDS: Final = "20"  # for faults that show at once
LATENCY_S: Final = 0.02  # each way, and some commands ask a hundred times
COPIES: Final = 2  # of what a command deletes

# {n} is another number in each round; {id} a message's; {handle} a timed one's; {folder} one for files.
COMMANDS: Final = [
    "topic list",
    "topic create New{n}",
    "topic update Orders --queues 4 --yes",
    "topic perm Orders rw",
    "topic delete Gone{n} --yes",
    "topic route Orders",
    "topic status Orders",
    "group list",
    "group create new{n}",
    "group delete gone{n} --yes",
    "group progress billing",
    "group members billing",
    "group members billing --client nobody",
    "group subscriptions billing",
    "group mode billing Orders pull",
    "offset show billing Orders",
    "offset reset billing Orders --to first --yes",
    "offset skip billing Orders --yes",
    "offset clone billing other --yes",
    "message send Orders hello --timeout 1",
    "message get {id}",
    "message query Orders key",
    "message print Orders",
    "message trace {id}",
    "message consume-directly {id} billing",
    "message recall {handle}",
    "broker status",
    "broker config",
    "broker config flushIntervalCommitLog=500 --yes",
    "broker stats",
    "broker replication",
    "broker clean queues --yes",
    "cluster list",
    "namesrv config",
    "namesrv kv NS",
    "namesrv kv NS k v",
    "namesrv kv NS k --delete --yes",
    "namesrv write-perm broker-a --allow --yes",
    "dlq list",
    "dlq show billing",
    "dlq export billing {folder}/letters{n}.json",
    "dlq resend billing --yes",
    "bench produce --topic Orders --count 10",
    "bench consume --topic Orders --count 1 --from first",
    "bench latency --topic Orders --count 5",
    "stats",
    "doctor --interval 0",
    "send Orders hello --timeout 1",
    "tail Orders --count 1 --from first",
    "consume other{n} Orders --count 1",
]

WITHOUT_BROKER: Final = ("topic route", "namesrv ")  # they ask name servers only
IN_PART: Final = ("topic list", "cluster list")  # they show what is known, and say what is missing
REPORTS: Final = ("doctor", "bench produce", "broker replication")  # what failed is their result
A_MINUTE: Final = ("broker clean",)  # what it is given, as deleting takes time

FAULTS: Final[dict[str, Callable[[Proxy], None]]] = {
    "hangs": Proxy.stall,
    "closes": lambda proxy: setattr(proxy, "refusing", True),
    "is no RocketMQ server": lambda proxy: setattr(proxy, "garbage", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "answers garbage": lambda proxy: setattr(proxy, "garbage", b"\0\0\0\x0c\0\0\0\x08{]:}{]:}"),
}


class World:
    """A cluster behind proxies, with what the commands ask for."""

    def __init__(self, running: Running[ProxiedCluster], folder: Path) -> None:
        self.running, self.folder, self.namesrv = running, folder, running.it.namesrv
        for topic in ("Orders", "RMQ_SYS_TRACE_TOPIC", "%DLQ%billing", *(f"Gone{n}" for n in range(COPIES))):
            running.run(running.it.create_topic(topic))
        with hanabi.Producer("faults", namesrv=self.namesrv) as producer:
            self.message_id = producer.send(hanabi.Message("Orders", b"x", keys=["key"])).message_id
            timed = producer.send(hanabi.Message("Orders", b"later", delay=timedelta(hours=1)))
        assert timed.recall_handle
        self.recall_handle = timed.recall_handle
        for group in ("billing", "other", *(f"gone{n}" for n in range(COPIES))):
            assert run("group", "create", group, "-n", self.namesrv).returncode == 0
        assert run("offset", "reset", "billing", "Orders", "--to", "first", "--yes", "-n", self.namesrv).returncode == 0

    def words(self, command: str, number: int = 0) -> list[str]:
        text = command.format(n=number, id=self.message_id, handle=self.recall_handle, folder=self.folder)
        return [*text.split(), "-n", self.namesrv]

    def run(self, command: str, number: int = 0) -> "subprocess.CompletedProcess[str]":
        return run(*self.words(command, number))

    def break_(self, name: str, fault: Callable[[Proxy], None]) -> None:
        self.running.do(lambda cluster: fault(cluster.proxies[name]))

    def repair(self) -> None:
        def repaired(cluster: ProxiedCluster) -> None:
            for proxy in cluster.proxies.values():
                proxy.go_on()
                proxy.refusing, proxy.garbage, proxy.latency_s = False, b"", 0.0

        self.running.do(repaired)


@pytest.fixture(scope="module")
def world_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("faults")
    with in_thread(proxied_cluster(folder / "cluster", brokers=[BROKER])) as running:
        yield World(running, folder)


@pytest.fixture
def world(world_of_all: World) -> Iterator[World]:
    yield world_of_all
    world_of_all.repair()


def test_every_command_that_asks_a_server_is_here() -> None:
    # `bench store` asks a disk, and `controller ...` neither of these servers; `user ...` and `acl ...` need a broker
    # with access control. Pipelines are tested with Spark.
    # `profile list` reads a file, and for `version` a cluster that does not answer is no error.
    elsewhere = ("bench store", "controller ", "user ", "acl ", "profile ", "version")
    known = {name for name in SHAPES if not name.startswith(elsewhere)}
    assert not [name for name in known if not any(_is(command, name.split()) for command in COMMANDS)]


def _is(command: str, words: list[str]) -> bool:
    given = command.split()
    return given[: len(words[:2])] == words[:2] and set(words) <= set(given)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_name_server_that_fails_is_one_sentence_and_an_exit_code(
    world: World, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TIMEOUT_VARIABLE, SHORT_SECONDS)
    world.break_(NAMESRV, FAULTS[fault])
    for command in COMMANDS:
        done = world.run(command)
        expected = 2 if command.startswith("doctor") else 1
        assert (done.returncode, done.stdout) == (expected, ""), (command, done)
        assert "Traceback" not in done.stderr
        assert done.stderr.splitlines()[-1].startswith("hanabi: "), (command, done.stderr)


@pytest.mark.timing(reason="only a deadline tells a broker that hangs from a name server that is slow")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_broker_that_fails_is_one_sentence_and_an_exit_code(
    world: World, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TIMEOUT_VARIABLE, BROKER_SECONDS.get(fault, LONG_SECONDS))
    world.break_(BROKER, FAULTS[fault])
    for command in COMMANDS:
        if command.startswith(A_MINUTE) and fault == "hangs":
            continue
        done = world.run(command)
        assert "Traceback" not in done.stderr
        if command.startswith(WITHOUT_BROKER):
            assert (done.returncode, done.stderr) == (0, ""), (command, done)
        elif command.startswith(IN_PART):
            assert done.returncode == 0, (command, done)
            assert done.stderr.startswith("hanabi: "), (command, done.stderr)
        else:
            assert done.returncode == 1, (command, done)
            told = done.stdout if command.startswith(REPORTS) else done.stderr.splitlines()[-1]
            assert BROKER in told or "Orders" in told, (command, done)


def test_servers_that_are_slow_are_waited_for(world: World) -> None:
    quick = {command: world.run(command, 0) for command in COMMANDS}
    for name in (NAMESRV, BROKER):
        world.break_(name, lambda proxy: setattr(proxy, "latency_s", LATENCY_S))
    for command in COMMANDS:
        slow = world.run(command, 1)
        assert slow.returncode == quick[command].returncode, (command, slow, quick[command])
    assert quick["topic status Orders"].returncode == quick["send Orders hello --timeout 1"].returncode == 0


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("topic status Orders", 130),
        ("message print Orders", 130),
        ("stats --watch 1", 0),
        ("doctor", 130),
        ("send Orders hello", 130),
        ("tail Orders", 0),
        ("consume billing Orders", 0),
        ("dlq resend billing --yes", 130),
        ("bench produce --topic Orders --count 10", 130),
    ],
)
def test_ctrl_c_ends_a_command_that_waits_for_a_server_that_hangs(world: World, command: str, code: int) -> None:
    proxy = world.running.it.proxies[NAMESRV]
    wait_until(lambda: proxy.connections == 0)
    world.break_(NAMESRV, Proxy.stall)
    with subprocess.Popen(
        [*HANABI, *world.words(command)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**{TIMEOUT_VARIABLE: "600"}),
    ) as process:
        try:
            wait_until(lambda: proxy.connections > 0, seconds=DEADLINE_SECONDS)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=DEADLINE_SECONDS)
        finally:
            process.kill()
    assert "Traceback" not in errors
    assert process.returncode == code, errors
