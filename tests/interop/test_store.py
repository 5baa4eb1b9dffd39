"""Each side serves the store that the other wrote: after a clean stop and after kill -9, with Apache 4.9 and 5.3."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from hanabi.wire.message import sysflag
from hanabi.wire.message.record import MAGIC_LONG_TOPIC
from tests.interop.apache import ApacheBroker
from tests.interop.jars import ALL_5, SERVERS_4
from tests.interop.store_files import file_contents, open_store, write_again
from tests.interop.store_messages import FILE_SIZES, SCHEDULE_TOPIC
from tests.interop.store_stories import (
    Killed,
    Left,
    Recovered,
    Served,
    apache_recovers_what_we_wrote,
    apache_serves_what_we_wrote,
    we_serve_what_apache_wrote,
)
from tests.interop.store_survey import Survey, differences

JAR_SETS = (SERVERS_4, ALL_5)


class Stories(NamedTuple):
    """Stories under way, by jar set."""

    served: dict[str, Future[Served]]
    recovered: dict[str, Future[Recovered]]
    killed: dict[str, Future[Killed]]


@pytest.fixture(scope="module")
def stories(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stories]:
    """Begin all stories at once, as far as the machine can bear it; a test waits for the end of its own."""
    told = Stories({}, {}, {})
    with ThreadPoolExecutor(max_workers=4) as tellers:
        for jar_set in (ALL_5, SERVERS_4):  # the slow ones first
            home = tmp_path_factory.mktemp(f"store-{jar_set}")
            told.killed[jar_set] = tellers.submit(we_serve_what_apache_wrote, home / "killed", jar_set)
            told.served[jar_set] = tellers.submit(apache_serves_what_we_wrote, home / "served", jar_set)
            told.recovered[jar_set] = tellers.submit(apache_recovers_what_we_wrote, home / "recovered", jar_set)
        yield told
        tellers.shutdown(cancel_futures=True)


@pytest.fixture(params=JAR_SETS)
def served(request: pytest.FixtureRequest, stories: Stories) -> Served:
    return stories.served[request.param].result()


@pytest.fixture(params=JAR_SETS)
def recovered(request: pytest.FixtureRequest, stories: Stories) -> Recovered:
    return stories.recovered[request.param].result()


@pytest.fixture(params=JAR_SETS)
def killed(request: pytest.FixtureRequest, stories: Stories) -> Killed:
    return stories.killed[request.param].result()


def assert_same_log_and_queues(left: Left, ours: Path) -> None:
    """Check that the files in *left* are the same as those that we make of the same messages in *ours*."""
    write_again(left.records, left.batches, ours)
    for part in ("commitlog", "consumequeue"):
        expected, found = file_contents(left.root, part), file_contents(ours, part)
        assert [name for name in expected if expected[name] != found[name]] == []


def differences_but_for_a_lost_index(ours: Survey, apaches: Survey) -> list[str]:
    """Compare as `differences` does, but messages that Apache's broker does not find by their keys do not count.

    After a crash it deletes an index file and does not always make it again from its beginning; we do.
    """
    ours, apaches = (told.with_keys_of_all_times() for told in (ours, apaches))
    found = {asked: [one for one in ours.keys[asked] if one in apaches.keys[asked]] for asked in ours.keys}
    return differences(ours._replace(keys=found), apaches.without_repeats())


def places(survey: Survey) -> set[tuple[int, int]]:
    return {(record.log_offset, record.size) for record in survey.records()}


# A store that we wrote


def test_apache_answers_as_we_do_on_a_store_that_we_wrote(served: Served) -> None:
    assert differences(served.ours, served.apaches) == []


def test_we_answer_as_apache_did_when_it_has_written_on(served: Served) -> None:
    assert len(served.apaches_with_more.records()) > len(served.apaches.records())
    assert differences(served.apaches_with_more, served.ours_with_more) == []


def test_the_same_messages_put_by_us_make_the_files_that_apache_left(served: Served, tmp_path: Path) -> None:
    assert_same_log_and_queues(served.left, tmp_path)
    # Index files are named by the time of their making, and the oldest are deleted in Apache's store.
    apaches, ours = file_contents(served.left.root, "index"), file_contents(tmp_path, "index")
    assert list(ours.values())[-len(apaches) :] == list(apaches.values())


def test_the_store_compared_has_everything_in_it(served: Served) -> None:
    """Guards the comparison: two empty stores would be equal too."""
    records = served.ours.records()
    assert served.ours.log_at_end[0] > 0
    parts = ("commitlog", "consumequeue/Busy/0", "index")
    assert all(len(file_contents(served.left.root, part)) > 4 for part in parts)
    assert {record.sys_flag & sysflag.HOSTS_V6 for record in records} >= {0, sysflag.BORN_HOST_V6, sysflag.HOSTS_V6}
    assert any(record.sys_flag & sysflag.COMPRESSED for record in records)
    assert any(len(batch) > 1 for batch in served.left.batches)
    assert any(record.topic == SCHEDULE_TOPIC for record in records)
    assert len(served.apaches.keys) > 1000
    assert len(served.apaches.times) > 300
    if any(boundary for _, _, boundary in served.apaches.times):
        assert any(record.magic == MAGIC_LONG_TOPIC for record in records)


def test_apache_recovers_what_we_left_when_killed_as_we_do(recovered: Recovered) -> None:
    assert recovered.ours.log_at_end[1] == recovered.log_end_before_tear
    assert differences_but_for_a_lost_index(recovered.ours, recovered.apaches) == []


def test_we_find_every_message_by_its_key_after_we_were_killed(recovered: Recovered) -> None:
    found = {record for answer in recovered.ours.keys.values() for record in answer}
    assert {record for queue in recovered.ours.queues.values() for record in queue} == found


def test_apache_trusts_our_checkpoint(recovered: Recovered) -> None:
    """Guards the comparison: from the first file on, Apache's broker would have made everything again."""
    assert len(recovered.apaches_starts) == 1
    assert int(Path(recovered.apaches_starts[0]).name) > 0


def test_apache_indexes_no_more_than_one_message_again(recovered: Recovered) -> None:
    # It always does so with the last one that an index file has when it finds it after a crash.
    assert len(recovered.apaches.repeated()) <= 1


def test_apache_serves_every_message_that_was_acknowledged_before_the_kill(recovered: Recovered) -> None:
    assert len(recovered.safe) >= 400
    assert set(recovered.safe) <= places(recovered.apaches)


# A store that Apache wrote


def test_we_recover_everything_that_apache_served_before_the_kill(killed: Killed) -> None:
    before, ours = (told.with_keys_of_all_times() for told in (killed.before, killed.ours))
    assert differences(before, ours._replace(times={})) == []


def test_we_answer_as_an_apache_broker_that_recovered_the_same(killed: Killed) -> None:
    assert differences_but_for_a_lost_index(killed.ours, killed.apaches) == []


def test_we_answer_as_apache_did_before_it_stopped(killed: Killed) -> None:
    assert differences(killed.apaches.without_repeats(), killed.ours_after_stop) == []


def test_the_same_messages_put_by_us_make_the_log_and_queues_that_apache_wrote(killed: Killed, tmp_path: Path) -> None:
    assert any(record.topic == SCHEDULE_TOPIC for record in killed.left.records)
    assert_same_log_and_queues(killed.left, tmp_path)


@pytest.mark.parametrize("jar_set", JAR_SETS)
def test_apaches_broker_does_not_start_on_a_store_that_we_have_open(
    apache_jars: None, jar_set: str, tmp_path: Path
) -> None:
    with open_store(tmp_path / "store"):
        broker = ApacheBroker(tmp_path, jar_set, name="second", cluster="c", namesrv=None, settings=FILE_SIZES)
        try:
            assert broker.process.wait_ended() != 0
        finally:
            broker.process.kill()
    assert "Lock failed,MQ already started" in broker.process.output()
