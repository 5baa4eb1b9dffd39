"""After os.fork(): a fresh start for new objects in the child, a clear error for old ones, nothing lost in the parent.

Each test is a program of its own, as forking a test runner with its threads would test the test runner.
"""

import os
import subprocess
import sys

import pytest

from hanabi.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

HEAD = """
import os, sys, threading, time
import hanabi
namesrv = sys.argv[1]

def say(*words):
    print(*words, flush=True)

def send(producer, body=b"x"):
    return producer.send(hanabi.Message("T", body)).status.name

def in_child(work):
    number = os.fork()
    if number == 0:
        work()
        sys.exit(0)  # the interpreter ends as always, with all that it does then
    assert os.waitpid(number, 0)[1] == 0
"""


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest, hanabi_cluster: EmbeddedCluster) -> "Run":
    hanabi_cluster.create_topic("T", queues=1)
    return Run(hanabi_cluster, request.param)


class Run:
    """Runs a program against the cluster, on one kind of loop."""

    def __init__(self, cluster: EmbeddedCluster, loop: str) -> None:
        self.cluster, self._loop = cluster, loop

    def __call__(self, script: str) -> list[str]:
        # Not "-X dev": a child that carries its parent's open loop has warnings to give, and nobody who asked for them.
        command = [sys.executable, "-c", HEAD + script, self.cluster.namesrv]
        environment = {**os.environ, "HANABI_LOOP": self._loop}
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout.splitlines()


def test_a_new_producer_works_in_the_child_and_the_old_one_in_the_parent(run: Run) -> None:
    said = run("""
old = hanabi.Producer("p", namesrv=namesrv)
old.start()
say("parent", send(old))

def work():
    with hanabi.Producer("p", namesrv=namesrv) as new:
        assert new.client_id != old.client_id
        say("child", send(new))

in_child(work)
say("parent", send(old))
in_child(lambda: None)
say("parent", send(old))
old.shutdown()
""")
    assert said == ["parent SEND_OK", "child SEND_OK", "parent SEND_OK", "parent SEND_OK"]


def test_an_old_producer_says_in_the_child_what_is_wrong(run: Run) -> None:
    said = run("""
old = hanabi.Producer("p", namesrv=namesrv)
old.start()
parent = os.getpid()

def work():
    for call in (lambda: send(old), old.shutdown, old.start):
        try:
            call()
        except hanabi.errors.BlockingCallError as error:
            say(str(parent) in str(error), "os.fork()" in str(error))

in_child(work)
say(send(old))
old.shutdown()
""")
    assert said == ["True True"] * 3 + ["SEND_OK"]


def test_what_was_made_but_not_started_before_the_fork_starts_in_the_child(run: Run) -> None:
    said = run("""
producer = hanabi.Producer("p", namesrv=namesrv)
in_child(lambda: (producer.start(), say(send(producer)), producer.shutdown()))
""")
    assert said == ["SEND_OK"]


def test_a_child_that_lives_on_does_not_keep_the_parents_connections_open(run: Run) -> None:
    said = run("""
old = hanabi.Producer("p", namesrv=namesrv)
old.start()
send(old)
go, told = os.pipe()
child = os.fork()
if child == 0:
    os.close(told)
    os.read(go, 1)  # until the parent is done
    sys.exit(0)
os.close(go)
import psutil
def sockets(process):
    return [c for c in psutil.Process(process).net_connections("tcp") if c.status == "ESTABLISHED"]
say("parent", bool(sockets(os.getpid())), "child", bool(sockets(child)))
say(send(old))
old.shutdown()
os.close(told)
os.waitpid(child, 0)
""")
    assert said == ["parent True child False", "SEND_OK"]


def test_forks_while_other_threads_send(run: Run) -> None:
    said = run("""
old = hanabi.Producer("p", namesrv=namesrv)
old.start()
stop, sent = threading.Event(), []

def sending():
    while not stop.is_set():
        sent.append(send(old))

threads = [threading.Thread(target=sending, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()

def work():
    with hanabi.Producer("p", namesrv=namesrv) as new:
        send(new)
    os._exit(0)  # the other threads are not here, but what they held may be

for _ in range(10):
    in_child(work)
stop.set()
for thread in threads:
    thread.join()
old.shutdown()
say(set(sent))
""")
    assert said == ["{'SEND_OK'}"]


def test_a_consumer_works_in_a_worker_of_multiprocessing(run: Run) -> None:
    said = run("""
import multiprocessing

def consume(results):
    consumer = hanabi.PushConsumer("c", namesrv=namesrv, consume_from="first")
    consumer.subscribe("T")
    got = threading.Event()

    @consumer.listener
    def listen(messages):
        results.put(messages[0].body)
        got.set()

    with consumer:
        got.wait(60)

with hanabi.Producer("p", namesrv=namesrv) as producer:
    send(producer, b"hello")
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    worker = context.Process(target=consume, args=(results,))
    worker.start()
    say(results.get(timeout=60))
    worker.join()
    say(worker.exitcode, send(producer))
""")
    assert said == ["b'hello'", "0 SEND_OK"]
