"""The blocking face: the same as asyncio's, from any thread, and clean at the end however a program ends."""

import asyncio
import contextlib
import contextvars
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hanabi
from hanabi.client.blocking.lifetime import Lifetime
from hanabi.client.blocking.loop_thread import LoopThread
from hanabi.client.blocking.stop_signals import Stopping
from hanabi.errors import BlockingCallError, MQError, SendFailed, TopicNotExist
from hanabi.testing.embedded import EmbeddedCluster
from hanabi.testing.waiting import SECONDS


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())  # those of tests before, perhaps, which are none of ours
    yield
    left = set(threading.enumerate()) - before
    assert [thread.name for thread in left if thread.name.startswith("hanabi")] == []


@pytest.fixture
def loop_thread() -> Iterator[LoopThread]:
    thread = LoopThread.acquire()
    yield thread
    thread.release()


def run_python(script: str, *arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    # In its development mode asyncio complains of a machine that is slow, too.
    quiet = "import logging; logging.getLogger('asyncio').setLevel(logging.ERROR)\n"
    command = [sys.executable, "-W", "error", "-X", "dev", "-c", quiet + script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


# Both faces


@pytest.mark.parametrize("name", hanabi.aio.__all__)
def test_each_asyncio_method_is_there_with_the_same_parameters(name: str) -> None:
    blocking, asynchronous = getattr(hanabi, name), getattr(hanabi.aio, name)
    internal = {
        "begin_send",
        "check_transaction",
        "in_own_listener",
        "queues_state",
        "reply_arrived",
        "send_outgoing",
        "settle",
        "take_ahead",
    }  # for the core and other parts
    for method, value in inspect.getmembers(asynchronous):
        if (method.startswith("_") and method != "__init__") or method in internal:
            continue
        ours = getattr(blocking, method, None)
        assert ours is not None, f"{name}.{method} is missing"
        if not callable(value):
            continue
        parameters, theirs = (list(inspect.signature(each).parameters.values()) for each in (ours, value))
        assert parameters == theirs, f"{name}.{method}"
        assert not inspect.iscoroutinefunction(ours), f"{name}.{method}"


def test_all_public_names_are_there() -> None:
    for name in hanabi.__all__:
        assert getattr(hanabi, name) is not None
    assert set(hanabi.__all__) <= set(dir(hanabi))
    with pytest.raises(AttributeError, match="Nonsense"):
        hanabi.Nonsense  # noqa: B018


def test_a_server_does_not_carry_the_client_with_it() -> None:
    done = run_python("import hanabi, hanabi.broker.broker, sys; print('hanabi.client.cluster.core' in sys.modules)")
    assert done.stdout == "False\n", done.stderr


# Sending


def test_messages_are_sent_in_every_way(hanabi_cluster: EmbeddedCluster) -> None:
    hanabi_cluster.create_topic("T", queues=2)
    with hanabi.Producer("p", namesrv=hanabi_cluster.namesrv) as producer:
        result = producer.send(hanabi.Message("T", b"one", keys=["k"]))
        assert result.status is hanabi.SendStatus.SEND_OK
        assert result.queue in producer.queues("T")
        queue = producer.queues("T")[1]
        assert producer.send(hanabi.Message("T", b"two"), queue=queue).queue == queue
        assert len(producer.send_many(hanabi.Message("T", b"%d" % i) for i in range(20))) == 20
        assert len(producer.send_batch([hanabi.Message("T", b"b")] * 3)) == 3
        producer.send_oneway(hanabi.Message("T", b"three"))
        assert producer.client_id
        assert (producer.group, producer.config.namesrv) == ("p", hanabi_cluster.namesrv)
        assert producer.settings.retries == 2


def test_an_error_comes_through_as_it_is(hanabi_cluster: EmbeddedCluster) -> None:
    with hanabi.Producer("p", namesrv=hanabi_cluster.namesrv) as producer:
        with pytest.raises(hanabi.InvalidMessage):
            producer.send(hanabi.Message("T", b""))
        with pytest.raises((SendFailed, TopicNotExist)):
            producer.send(hanabi.Message("T", b"x"), queue=hanabi.MessageQueue("T", "nobody", 0))


def test_many_threads_use_one_producer(hanabi_cluster: EmbeddedCluster) -> None:
    hanabi_cluster.create_topic("T")
    sent: list[str] = []
    with hanabi.Producer("p", namesrv=hanabi_cluster.namesrv) as producer:

        def send() -> None:
            sent.extend(producer.send(hanabi.Message("T", b"x")).message_id for _ in range(25))

        threads = [threading.Thread(target=send) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
    assert len(set(sent)) == 200


def test_a_transaction_is_committed(hanabi_cluster: EmbeddedCluster) -> None:
    hanabi_cluster.create_topic("T")
    producer = hanabi.TransactionProducer("p", namesrv=hanabi_cluster.namesrv)
    threads: list[str] = []

    @producer.check
    def check(message: hanabi.StoredMessage) -> hanabi.TransactionState:
        return hanabi.TransactionState.ROLLBACK

    def execute(message: hanabi.Message, sent: hanabi.SendResult) -> hanabi.TransactionState:
        threads.append(threading.current_thread().name)
        producer.send(hanabi.Message("T", b"from inside"))  # it may block: it is not on the loop
        return hanabi.TransactionState.COMMIT

    with producer:
        result = producer.send_in_transaction(hanabi.Message("T", b"half"), execute)
    assert result.state is hanabi.TransactionState.COMMIT
    assert threads[0] != "hanabi"


def test_before_its_start_and_after_its_end_a_producer_says_so() -> None:
    producer = hanabi.Producer("p", namesrv="127.0.0.1:1")
    with pytest.raises(MQError, match="not running: use `with`"):
        producer.send(hanabi.Message("T", b"x"))
    producer.shutdown()
    producer.start()
    with pytest.raises(MQError, match="already"):
        producer.start()
    producer.shutdown()
    producer.shutdown()
    with pytest.raises(MQError, match="not running"):
        producer.send(hanabi.Message("T", b"x"))
    with producer:  # again
        assert producer.client_id


def test_several_objects_share_one_thread_that_ends_with_the_last() -> None:
    first, second = (hanabi.Producer("p", namesrv="127.0.0.1:1") for _ in range(2))
    with first:
        with second:
            assert [thread.name for thread in threading.enumerate()].count("hanabi") == 1
        assert first.client_id
        assert [thread.name for thread in threading.enumerate()].count("hanabi") == 1


def test_two_threads_that_shut_down_at_once_end_it_once() -> None:
    with hanabi.Producer("q", namesrv="127.0.0.1:1") as bystander:
        producer = hanabi.Producer("p", namesrv="127.0.0.1:1")
        producer.start()
        threads = [threading.Thread(target=producer.shutdown) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
        with pytest.raises(hanabi.InvalidMessage):  # and not that there is no loop any more
            bystander.send(hanabi.Message("T", b""))


def test_what_cannot_start_leaves_nothing_behind() -> None:
    consumer = hanabi.PushConsumer("c", namesrv="127.0.0.1:1")
    with pytest.raises(hanabi.ConfigError, match="listener"):
        consumer.start()
    producer = hanabi.TransactionProducer("p", namesrv="127.0.0.1:1")
    with pytest.raises(MQError, match="check"):
        producer.start()


# Where a blocking call cannot be made


def test_a_blocking_call_inside_a_users_event_loop_works_and_warns(hanabi_cluster: EmbeddedCluster) -> None:
    hanabi_cluster.create_topic("T")

    async def send() -> hanabi.SendResult:
        with hanabi.Producer("p", namesrv=hanabi_cluster.namesrv) as producer:
            return producer.send(hanabi.Message("T", b"x"))

    with pytest.warns(RuntimeWarning, match=r"hanabi\.aio"):
        assert asyncio.run(send()).queue.topic == "T"


def test_a_blocking_call_in_the_loops_own_thread_is_an_error_and_not_a_hang(loop_thread: LoopThread) -> None:
    async def nothing() -> None: ...

    async def inside() -> None:
        loop_thread.run(nothing())

    with pytest.raises(BlockingCallError, match="would wait for itself"):
        loop_thread.run(inside())


def test_a_selector_that_calls_its_producer_gets_an_error(hanabi_cluster: EmbeddedCluster) -> None:
    hanabi_cluster.create_topic("T")
    with hanabi.Producer("p", namesrv=hanabi_cluster.namesrv) as producer:

        def selector(queues: Any, message: hanabi.Message, arg: Any) -> hanabi.MessageQueue:
            return producer.send(message).queue

        with pytest.raises(MQError, match="would wait for itself"):
            producer.send(hanabi.Message("T", b"x"), selector=selector)


# The loop's thread


def test_results_and_errors_come_back_and_context_goes_along(loop_thread: LoopThread) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("mine")

    async def read() -> tuple[str, str]:
        return variable.get(), threading.current_thread().name

    async def fail() -> None:
        raise KeyError("x")

    assert loop_thread.run(read()) == ("mine", "hanabi")
    assert loop_thread.call(threading.current_thread).name == "hanabi"
    with pytest.raises(KeyError, match="x"):
        loop_thread.run(fail())


def test_ctrl_c_interrupts_the_wait_and_cancels_what_was_waited_for(loop_thread: LoopThread) -> None:
    cancelled = threading.Event()

    async def forever() -> None:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(KeyboardInterrupt):
        loop_thread.run(forever())
    assert cancelled.wait(SECONDS)


def test_when_the_thread_ends_nobody_is_left_waiting() -> None:
    thread = LoopThread.acquire()
    waiting = threading.Event()
    errors: list[BaseException] = []

    async def forever() -> None:
        waiting.set()
        await asyncio.Event().wait()

    def wait() -> None:
        try:
            thread.run(forever())
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert waiting.wait(SECONDS)
    thread.release()
    waiter.join(SECONDS)
    assert isinstance(errors[0], BlockingCallError)
    assert thread.has_ended
    with pytest.raises(BlockingCallError, match="stopped"):
        thread.run(forever())


def test_what_is_open_is_shut_down_within_its_time() -> None:
    thread = LoopThread.acquire()
    given: list[float] = []

    async def quick(seconds: float) -> None:
        given.append(seconds)

    async def endless(seconds: float) -> None:
        await asyncio.Event().wait()

    async def failing(seconds: float) -> None:
        raise MQError("no")

    for shutdown in (quick, endless, failing):
        thread.opened(shutdown, shutdown)
    thread.opened(given, quick)
    thread.closed(given)
    thread.stop(0.3)  # returns, though one of them is endless
    assert len(given) == 1
    assert given[0] < 0.3
    thread.release()


def test_an_object_whose_thread_has_ended_can_be_shut_down_in_silence() -> None:
    life = Lifetime("it")

    async def nothing() -> None: ...

    async def shutdown(seconds: float) -> None: ...

    life.start(nothing, shutdown)
    assert life._life is not None
    life._life.thread.stop(1.0)
    life.shutdown(nothing)
    assert not life.is_running


def test_an_end_that_fails_is_an_end() -> None:
    life = Lifetime("it")

    async def start() -> int:
        return 7

    async def shutdown(seconds: float = 0.0) -> None:
        raise MQError("broken")

    assert life.start(start, shutdown) == 7
    with pytest.raises(MQError, match="broken"):
        life.shutdown(shutdown)
    assert not life.is_running


# A program's end


FORGOTTEN = """
import sys, hanabi
producer = hanabi.Producer("p", namesrv=sys.argv[1])
producer.start()
print(producer.send(hanabi.Message("T", b"x")).status.name)
"""


@pytest.mark.parametrize("ending", ["", "sys.exit(0)", "import atexit; atexit.register(producer.shutdown)"])
def test_a_program_that_forgets_the_shutdown_ends_without_a_word(hanabi_cluster: EmbeddedCluster, ending: str) -> None:
    hanabi_cluster.create_topic("T")
    done = run_python(FORGOTTEN + ending, hanabi_cluster.namesrv)
    assert (done.returncode, done.stdout, done.stderr) == (0, "SEND_OK\n", "")
    groups = hanabi_cluster.cluster.broker.tables.producers.groups()
    assert "p" not in groups


def test_a_program_that_fails_shows_its_own_traceback_alone(hanabi_cluster: EmbeddedCluster) -> None:
    hanabi_cluster.create_topic("T")
    done = run_python(FORGOTTEN + "raise ValueError('mine')", hanabi_cluster.namesrv)
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert done.stderr.endswith("ValueError: mine\n")


@pytest.mark.parametrize("size", [1, 1 << 17])  # the larger one is compressed in a thread, as long as there are threads
def test_a_thread_that_outlives_the_main_thread_can_still_send(hanabi_cluster: EmbeddedCluster, size: int) -> None:
    hanabi_cluster.create_topic("T")
    later = f"""
import threading
def later():
    threading.main_thread().join()
    print(producer.send(hanabi.Message("T", bytes({size}))).status.name)
threading.Thread(target=later).start()
"""
    done = run_python(FORGOTTEN + later, hanabi_cluster.namesrv)
    assert (done.returncode, done.stdout, done.stderr) == (0, "SEND_OK\nSEND_OK\n", "")


def test_a_broadcasting_consumer_that_is_forgotten_keeps_its_place(
    hanabi_cluster: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanabi_cluster.create_topic("T", queues=1)
    monkeypatch.setenv("ROCKETMQ_OFFSETS_DIR", str(tmp_path / "offsets"))
    program = """
import queue, sys, hanabi
seen = queue.Queue()
consumer = hanabi.PushConsumer("b", namesrv=sys.argv[1], client_id="me", broadcasting=True, consume_from="first")
consumer.subscribe("T")
consumer.listener(lambda messages: [seen.put(message.body.decode()) for message in messages])
with hanabi.Producer("p", namesrv=sys.argv[1]) as producer:
    producer.send(hanabi.Message("T", sys.argv[2].encode()))
consumer.start()
print(seen.get(timeout=30))
"""
    for body in ("first", "second"):
        done = run_python(program, hanabi_cluster.namesrv, body)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{body}\n", "")


CONSUMING = """
import sys, hanabi
consumer = hanabi.PushConsumer("c", namesrv=sys.argv[1], consume_from="first")
consumer.subscribe("T")
"""
PRINTING = """
@consumer.listener
def listen(messages):
    for message in messages:
        print(message.body.decode(), flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_consumer_runs_until_a_signal_and_leaves_cleanly(
    hanabi_cluster: EmbeddedCluster, number: signal.Signals
) -> None:
    hanabi_cluster.create_topic("T", queues=1)
    with hanabi.Producer("p", namesrv=hanabi_cluster.namesrv) as producer:
        producer.send(hanabi.Message("T", b"hello"))
    script = CONSUMING + PRINTING + "consumer.run()\nprint('ended')"
    command = [sys.executable, "-W", "error", "-X", "dev", "-c", script, hanabi_cluster.namesrv]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "hello\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "ended\n", "")
    broker = hanabi_cluster.cluster.broker
    assert broker.tables.offsets.find("c", "T", 0) == 1
    assert broker.tables.consumers.find_group("c") is None


def test_a_program_that_ends_while_it_consumes_ends_cleanly(hanabi_cluster: EmbeddedCluster) -> None:
    hanabi_cluster.create_topic("T", queues=1)
    with hanabi.Producer("p", namesrv=hanabi_cluster.namesrv) as producer:
        producer.send(hanabi.Message("T", b"hello"))
    rest = """
import threading
got, never = threading.Event(), threading.Event()
@consumer.listener
def endless(messages):
    got.set()
    never.wait()
consumer.start()
got.wait(60)
"""
    done = run_python(CONSUMING + rest, hanabi_cluster.namesrv)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_an_async_listener_that_exits_ends_nothing_but_its_own_call(
    hanabi_cluster: EmbeddedCluster, error: BaseException
) -> None:
    hanabi_cluster.create_topic("Exits", queues=1)
    again = threading.Event()
    consumer = hanabi.PushConsumer("g", config=hanabi_cluster.config(), consume_from="first")
    consumer.subscribe("Exits")

    @consumer.listener
    async def exit_once(messages: list[hanabi.StoredMessage]) -> None:
        if messages[0].body == b"first" and not messages[0].reconsume_times:
            raise error
        again.set()

    with hanabi.Producer("p", config=hanabi_cluster.config()) as producer, consumer:
        producer.send(hanabi.Message("Exits", b"first"))
        producer.send(hanabi.Message("Exits", b"second"))
        assert again.wait(60)
        producer.send(hanabi.Message("Exits", b"third"))


def test_a_listener_that_is_given_as_an_argument_is_ordered_too() -> None:
    consumer = hanabi.PushConsumer("g", namesrv="127.0.0.1:9")

    def take(messages: list[hanabi.StoredMessage]) -> None:
        del messages

    assert consumer.listener(take, ordered=True) is take
    assert consumer._aio._ordered


def test_another_thread_ends_a_consumer_that_runs(hanabi_cluster: EmbeddedCluster) -> None:
    hanabi_cluster.create_topic("T")
    consumer = hanabi.PushConsumer("c", namesrv=hanabi_cluster.namesrv, consume_from="first")
    consumer.subscribe("T")
    got: list[bytes] = []
    arrived = threading.Event()

    @consumer.listener
    def listen(messages: list[hanabi.StoredMessage]) -> None:
        got.extend(message.body for message in messages)
        arrived.set()

    running = threading.Thread(target=consumer.run)
    running.start()
    with hanabi.Producer("p", namesrv=hanabi_cluster.namesrv) as producer:
        producer.send(hanabi.Message("T", b"hello"))
        assert arrived.wait(SECONDS)
        assert consumer.queues
        consumer.pause()
        consumer.resume()
        consumer.shutdown()
    running.join(SECONDS)
    assert not running.is_alive()
    assert got == [b"hello"]


def test_a_pull_consumer_reads_and_commits(hanabi_cluster: EmbeddedCluster) -> None:
    hanabi_cluster.create_topic("T", queues=1)
    with (
        hanabi.Producer("p", namesrv=hanabi_cluster.namesrv) as producer,
        hanabi.PullConsumer("c", namesrv=hanabi_cluster.namesrv) as consumer,
    ):
        producer.send_many([hanabi.Message("T", b"one"), hanabi.Message("T", b"two")])
        (queue,) = consumer.queues_of("T")
        result = consumer.pull(queue, consumer.begin_offset(queue), hold_s=5.0)
        assert result.status is hanabi.PullStatus.FOUND
        assert sorted(message.body for message in result.messages) == [b"one", b"two"]
        assert result.next_offset == consumer.end_offset(queue) == 2
        consumer.commit({queue: 2})
        assert consumer.committed(queue) == 2
        assert consumer.offset_for_time(queue, consumer.earliest_store_time_ms(queue) / 1000) == 0
        consumer.send_back(result.messages[0])
        assert (consumer.group, consumer.config.namesrv) == ("c", hanabi_cluster.namesrv)
        assert consumer.client_id != ""
        assert consumer.settings == hanabi.PullConfig()


def test_a_lite_pull_consumer_polls_seeks_and_is_iterated(hanabi_cluster: EmbeddedCluster) -> None:
    hanabi_cluster.create_topic("T", queues=1)
    consumer = hanabi.LitePullConsumer("c", namesrv=hanabi_cluster.namesrv, consume_from="first")
    consumer.subscribe("T")
    with hanabi.Producer("p", namesrv=hanabi_cluster.namesrv) as producer, consumer:
        for body in (b"one", b"two", b"three"):
            producer.send(hanabi.Message("T", body))
        bodies: list[bytes] = []
        while len(bodies) < 3:
            bodies += [message.body for message in consumer.poll(timeout=SECONDS)]
        assert bodies == [b"one", b"two", b"three"]
        (queue,) = consumer.queues_of("T")
        assert queue in consumer.queues
        assert consumer.position(queue) == 3
        consumer.commit()
        assert consumer.committed(queue) == 3
        consumer.seek_to_begin(queue)
        assert next(consumer).body == b"one"
        consumer.seek_to_end(queue)
        consumer.seek_to_time(queue, 0.0)
        consumer.seek(queue, 1)
        assert [message.body for _, message in zip(range(2), consumer, strict=False)] == [b"two", b"three"]
        assert (consumer.begin_offset(queue), consumer.end_offset(queue)) == (0, 3)
        assert consumer.offset_for_time(queue, 0.0) == 0
        consumer.pause([queue])
        assert consumer.poll(timeout=0.05) == []
        consumer.resume([queue])
        consumer.unsubscribe("T")
        assert (consumer.group, consumer.settings.consume_from) == ("c", "first")
    assert list(consumer) == []


def test_a_with_block_of_a_lite_pull_consumer_that_ends_well_commits(hanabi_cluster: EmbeddedCluster) -> None:
    hanabi_cluster.create_topic("T", queues=1)
    with hanabi.Producer("p", namesrv=hanabi_cluster.namesrv) as producer:
        for body in (b"one", b"two"):
            producer.send(hanabi.Message("T", body))

    def read_one(then: Callable[[], object]) -> bytes:
        consumer = hanabi.LitePullConsumer("c", namesrv=hanabi_cluster.namesrv, consume_from="first")
        consumer.subscribe("T")
        seen = b""
        with contextlib.suppress(ZeroDivisionError), consumer:
            seen = next(consumer).body
            then()
        return seen

    assert read_one(lambda: 1 // 0) == b"one"
    assert read_one(lambda: None) == b"one"
    assert read_one(lambda: None) == b"two"


def test_a_callback_on_the_loop_may_assign_queues(hanabi_cluster: EmbeddedCluster) -> None:
    hanabi_cluster.create_topic("T", queues=1)
    consumer = hanabi.LitePullConsumer("c", namesrv=hanabi_cluster.namesrv, route_refresh_s=0.05)
    changed = threading.Event()

    def assign(topic: str, queues: set[hanabi.MessageQueue]) -> None:
        consumer.assign(queues)
        if len(queues) == 2:
            changed.set()

    consumer.on_queues_changed("T", assign)
    with consumer:
        assert len(consumer.queues_of("T")) == 1  # what comes now is a change
        hanabi_cluster.create_topic("T", queues=2)
        assert changed.wait(SECONDS)
        assert len(consumer.queues) == 2


def test_a_signal_stops_the_wait_and_means_afterwards_what_it_meant_before() -> None:
    before = signal.getsignal(signal.SIGTERM)
    stopping = Stopping()
    with stopping.on_signals():
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
        stopping.wait()
        stopping.stop()
        stopping.stop()
    assert signal.getsignal(signal.SIGTERM) is before


class _Interrupted(Exception):
    """Raised by a signal handler."""


@pytest.mark.parametrize("how", ["poll", "next"])
def test_what_a_lite_consumer_took_while_a_signal_interrupted_the_wait_is_not_lost(
    hanabi_cluster: EmbeddedCluster, how: str
) -> None:
    hanabi_cluster.create_topic("T", queues=1)
    consumer = hanabi.LitePullConsumer("g", config=hanabi_cluster.config(), consume_from="first")
    consumer.subscribe("T")

    def handle(number: int, frame: object) -> None:
        """While the main thread is in here, the message comes, and the call that waits for it ends."""
        with hanabi.Producer("p", config=hanabi_cluster.config()) as producer:
            producer.send(hanabi.Message("T", b"precious"))
        (queue,) = consumer.queues
        while consumer.position(queue) != 1:
            time.sleep(0.01)
        raise _Interrupted

    before = signal.signal(signal.SIGALRM, handle)
    try:
        with consumer:
            while not consumer.queues:
                time.sleep(0.01)
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(_Interrupted):
                consumer.poll(60.0) if how == "poll" else next(consumer)
            (queue,) = consumer.queues
            assert [message.body for message in consumer.poll(10.0)] == [b"precious"]
            assert consumer.poll(0.01) == []
            assert consumer.position(queue) == 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
