"""Stories of stores between Apache's brokers and us. Each returns what both sides saw.

Starting and stopping Apache's brokers takes most of the time, and much of that is waiting: stories run side by side.
"""

import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from hanabi.errors import StoreLocked
from hanabi.store.indexer import Hooks
from hanabi.store.message_store import MessageStore, PutResult, PutStatus
from hanabi.wire.message import sysflag
from hanabi.wire.message.properties import PROPERTIES_BYTES_MAX
from hanabi.wire.message.record import Record
from tests.interop.apache import ApacheBroker
from tests.interop.jars import ALL_5, SERVERS_4
from tests.interop.probe import Conversation
from tests.interop.store_files import (
    copy_store,
    date_queue_files,
    log_records,
    open_store,
    store_config,
    tear,
    write_topics,
)
from tests.interop.store_messages import (
    FILE_SIZES,
    HALF_TOPIC,
    HOST_4,
    HOST_6,
    LAST_LEVEL,
    SCHEDULE_TOPIC,
    TOPICS,
    Sample,
    deliver_time_ms,
    pending,
    samples,
    send,
)
from tests.interop.store_survey import BY_4_9, BY_5, Boundaries, Survey, survey
from tests.interop.store_views import ApacheView, OurView

SEARCHES: dict[str, Boundaries] = {SERVERS_4: BY_4_9, ALL_5: BY_5}
LONG_TOPIC = "%RETRY%" + "long" * 50  # only 5.x knows topics of more than 127 bytes
HOUR_MS = 3_600_000
SAFE_MESSAGES = 400
ROOT = Path(__file__).parent.parent.parent


class Left(NamedTuple):
    """Files that a broker of Apache's left behind when it stopped."""

    root: Path  # a copy of it
    records: list[Record]  # all that were ever in it
    batches: list[list[int]]  # where in the log those are that came together


class Served(NamedTuple):
    """Apache's broker served a store that we wrote, took more messages, stopped, and we opened it again."""

    ours: Survey
    apaches: Survey
    apaches_with_more: Survey
    left: Left
    ours_with_more: Survey


class Recovered(NamedTuple):
    """We were killed, the last write was torn, and Apache's broker and we recovered copies of that."""

    safe: list[tuple[int, int]]  # log offset and size of what the killed one had called stored
    log_end_before_tear: int
    ours: Survey
    apaches: Survey
    apaches_starts: list[str]  # the log file in which its recovery began, if that was not the first


class Killed(NamedTuple):
    """Apache's broker was killed; we and another of its kind recovered that; the other one stopped; we opened that."""

    before: Survey
    ours: Survey
    apaches: Survey
    left: Left
    ours_after_stop: Survey


@contextmanager
def apache_on(home: Path, jar_set: str) -> Iterator[tuple[ApacheBroker, Conversation]]:
    """Yield a broker of Apache's on the store in *home*, and a conversation with it; killed on the way out."""
    broker = ApacheBroker(home, jar_set, name="broker-a", cluster="c", namesrv=None, settings=FILE_SIZES)
    try:
        broker.wait_ready()
        with Conversation(broker.address) as conversation:
            yield broker, conversation
    finally:
        broker.process.kill()


def apache_serves_what_we_wrote(home: Path, jar_set: str) -> Served:
    root = home / "store"
    searches = SEARCHES[jar_set]
    topics = (*TOPICS, LONG_TOPIC) if jar_set == ALL_5 else TOPICS
    ours, deleted, batches = write_store(root, topics, searches)
    queues = list(ours.queues)
    write_topics(root, {topic for topic, _ in queues if topic != SCHEDULE_TOPIC})
    date_queue_files(root)
    with apache_on(home, jar_set) as (broker, conversation):
        with pytest.raises(StoreLocked):  # two brokers on one store would be the end of it
            open_store(root)
        view = ApacheView(conversation)
        apaches = survey(view, queues, searches)
        batches += send_all(conversation, samples(seed=3, count=120))
        date_queue_files(root)
        apaches_with_more = survey(view, queues, searches)
        broker.process.stop()
    left = Left(copy_store(root, home / "left"), deleted + log_records(root), batches)
    with open_store(root) as store:
        ours_with_more = survey(OurView(store), queues, searches)
    return Served(ours, apaches, apaches_with_more, left, ours_with_more)


def apache_recovers_what_we_wrote(home: Path, jar_set: str) -> Recovered:
    root = home / "killed"
    safe = write_until_killed(root)
    with open_store(copy_store(root, home / "whole")) as store:
        log_end = store.max_log_offset
    last = log_records(root)[-1]
    # Torn in the body, so that only the CRC tells; or in the head, behind the magic number.
    tear(root, log_end, last, whole_bytes=300 if jar_set == SERVERS_4 else 30)
    queues = {(record.topic, record.queue_id) for record in log_records(root)}
    write_topics(root, {topic for topic, _ in queues})
    searches = () if jar_set == SERVERS_4 else SEARCHES[jar_set]  # dates of the files that Apache makes again say now
    with open_store(copy_store(root, home / "ours")) as store:
        ours = survey(OurView(store), queues, searches)
    copy_store(root, home / "apaches")
    with apache_on(home / "apaches", jar_set) as (broker, conversation):
        apaches = survey(ApacheView(conversation), queues, searches)
        starts = [line.split()[-1] for line in broker.logged() if "recover from this mapped file" in line]
    return Recovered(safe, log_end, ours, apaches, starts)


def we_serve_what_apache_wrote(home: Path, jar_set: str) -> Killed:
    searches = SEARCHES[jar_set]
    root = home / "store"
    with apache_on(home, jar_set) as (broker, conversation):
        batches = send_all(conversation, samples(seed=4, count=300))
        send(conversation, [Sample("Busy", 1, b"later", {"DELAY": str(LAST_LEVEL), "TAGS": "A", "UNIQ_KEY": "later"})])
        send(conversation, [Sample("Busy", 1, b"half", {"TRAN_MSG": "true", "PGROUP": "p", "UNIQ_KEY": "half"})])
        send_from_an_ipv6_address(broker.address)
        queues = [(path.parent.name, int(path.name)) for path in (root / "consumequeue").glob("*/*")]
        queues = [queue for queue in queues if queue[0] != HALF_TOPIC]  # which 4.9 lets nobody pull from
        before = survey(ApacheView(conversation), queues, ())
        broker.process.kill()
    date_queue_files(root)
    with open_store(copy_store(root, home / "ours")) as store:
        ours = survey(OurView(store), queues, searches)
    copy_store(root, home / "apaches")
    with apache_on(home / "apaches", jar_set) as (broker, conversation):
        apaches = survey(ApacheView(conversation), queues, searches)
        broker.process.stop()
    root = home / "apaches" / "store"
    left = Left(copy_store(root, home / "left"), log_records(root), batches)
    with open_store(root) as store:
        ours_after_stop = survey(OurView(store), queues, searches)
    return Killed(before, ours, apaches, left, ours_after_stop)


# What happens in them


def write_store(
    root: Path, topics: Sequence[str], searches: Boundaries
) -> tuple[Survey, list[Record], list[list[int]]]:
    """Write messages of every kind and delete the oldest. Returns what the store answers, what is gone, the batches."""
    now_ms = int(time.time() * 1000)
    clock_ms = now_ms - 100 * HOUR_MS
    results: list[PutResult] = []
    with MessageStore.open(
        store_config(root),
        now_ms=lambda: clock_ms,
        hooks=Hooks(deliver_time_ms=deliver_time_ms),
        disk_ratio=lambda _: 0.1,
    ) as store:

        def put(batch: Sequence[Sample], born_host: bytes = HOST_4, store_host: bytes = HOST_4) -> None:
            messages = [pending(sample, born_host=born_host, store_host=store_host) for sample in batch]
            result = store.put(messages[0]) if len(messages) == 1 else store.put_batch(messages)
            assert result.status is PutStatus.PUT_OK, result.reason
            results.append(result)

        for batch in samples(seed=0, count=100, topics=topics):
            put(batch)
            clock_ms += 30
        clock_ms = now_ms - HOUR_MS
        for number, batch in enumerate(samples(seed=1, count=300, topics=topics)):
            put(batch, HOST_6 if number % 5 == 1 else HOST_4, HOST_6 if number % 7 == 1 else HOST_4)
            clock_ms += (0, 0, 1, 700, 0, 13)[number % 6]  # many share a time, and some files have gaps between them
            if number % 40 == 0:
                put([Sample(SCHEDULE_TOPIC, LAST_LEVEL - 1, b"later", delayed(topics[0]))])
                put([Sample(topics[1], 1, b"half", {"KEYS": "half"}, sysflag.TRANSACTION_PREPARED)])
                put([Sample(topics[1], 1, b"back", {"KEYS": "back"}, sysflag.TRANSACTION_ROLLBACK)])
                put([Sample(topics[1], 1, b"done", {"KEYS": "done"}, sysflag.TRANSACTION_COMMIT)])
                put([Sample(topics[1], 2, b"", {})])
            if number % 60 == 0:  # to the last byte of a log file, or nearly
                put([filling(store, leaving=number // 60)])
                put([Sample(topics[1], 3, b"full", {"long": "x" * (PROPERTIES_BYTES_MAX - len("long") - 2)})])
        written = log_records(root)
        store.retention.ask()
        store.retention.run_round()
        queues = list(store.queues())
        answers = survey(OurView(store), queues, searches)
    deleted = [record for record in written if record.log_offset < answers.log_at_end[0]]
    return answers, deleted, [[place.log_offset for place in result.appended] for result in results]


def delayed(topic: str) -> dict[str, str]:
    return {"DELAY": str(LAST_LEVEL), "REAL_TOPIC": topic, "REAL_QID": "0", "TAGS": "A", "KEYS": "later"}


def filling(store: MessageStore, *, leaving: int) -> Sample:
    """Return a message behind which a log file has so many bytes more than the 8 that must remain."""
    sample = Sample(TOPICS[0], 0, b"", {"TAGS": "fills"})
    overhead = 91 + len(sample.topic) + len(b"TAGS\x01fills\x02")
    room = FILE_SIZES["mappedFileSizeCommitLog"] - store.max_log_offset % FILE_SIZES["mappedFileSizeCommitLog"]
    return sample._replace(body=b"f" * max(room - overhead - 8 - leaving, 0))


def write_until_killed(root: Path) -> list[tuple[int, int]]:
    """Let a process of ours store messages, and kill it; return what it had called stored."""
    first_ms = int(time.time() * 1000) - HOUR_MS
    command = [sys.executable, "-m", "tests.interop.store_writer", str(root), str(first_ms)]
    safe: list[tuple[int, int]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as writer:
        assert writer.stdout is not None
        try:
            for line in writer.stdout:
                log_offset, size = line.split()
                safe.append((int(log_offset), int(size)))
                if len(safe) == SAFE_MESSAGES:
                    writer.kill()
        finally:
            writer.kill()
    assert (root / "abort").exists()
    return safe


def send_all(conversation: Conversation, batches: Iterable[Sequence[Sample]]) -> list[list[int]]:
    return [send(conversation, batch) for batch in batches]


def send_from_an_ipv6_address(broker: str) -> None:
    """Send with a born host of 20 bytes. Where there is no IPv6, the golden stores and what we wrote must do."""
    try:
        conversation = Conversation(f"::1:{broker.rpartition(':')[2]}")
    except OSError:
        return
    with conversation:
        send(conversation, [Sample("Busy", 0, b"from afar", {"UNIQ_KEY": "far", "TAGS": "A"})])
