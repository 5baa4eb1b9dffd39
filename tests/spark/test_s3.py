"""S3: archives on an object store, which renames by copying. moto serves it, and Hadoop's S3A speaks to it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hanabi.testing.waiting import wait_until
from tests.serving import Serving, serving
from tests.spark.broker_world import make_topic, send
from tests.spark.hadoop import skip_without
from tests.spark.pipelines.commands import arrived, confs, facts_in, output_of, pipeline_command
from tests.spark.s3 import BUCKET, JARS, S3, s3
from tests.spark.standalone import BIN, CONF, Submitted, environment

MESSAGES, A_STEP = 4_000, 1_000
MASTER = "local[2]"
PROGRAM = Path(__file__).parent / "s3_program.py"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    skip_without(JARS)
    with s3(tmp_path_factory.mktemp("s3")) as running:
        yield running


def command(store: S3, broker: Serving, *arguments: str) -> list[str]:
    return pipeline_command(broker, MASTER, {**CONF, **store.settings}, *arguments)


def run(store: S3, home: Path, broker: Serving, *arguments: str) -> Any:
    return facts_in(output_of(command(store, broker, *arguments), environment(home), home, timeout_s=900))


@pytest.mark.slow
@pytest.mark.timeout(2_400)  # on a machine with much else to do
def test_archives_on_s3_are_resumed_and_replayed_whoever_is_killed_or_runs_beside(store: S3, tmp_path: Path) -> None:
    with serving(tmp_path / "broker") as broker:
        topic = make_topic(broker, "Orders")
        send(broker, topic, [f"{number:05}" for number in range(MESSAGES // 2)], tags="paid")
        plain = ["archive", "--topics", topic, "--to", f"{store.files}/plain", "--batch-messages", str(A_STEP)]
        assert run(store, tmp_path, broker, *plain)["messages_archived"] == MESSAGES // 2
        send(broker, topic, [f"{number:05}" for number in range(MESSAGES // 2, MESSAGES)])
        again = run(store, tmp_path, broker, *plain)
        assert (again["messages_archived"], again["messages_in_archive"]) == (MESSAGES // 2, MESSAGES)
        assert not [name for name in store.names("plain/_archive/staging") if name.endswith(".parquet")]
        assert replayed(store, tmp_path, broker, "plain") == arrived(broker, topic)

        killed = ["archive", "--topics", topic, "--to", f"{store.files}/killed", "--batch-messages", str(A_STEP)]
        driver = Submitted(command(store, broker, *killed), tmp_path, tmp_path / "killed.log", environment(tmp_path))
        try:
            wait_until(
                lambda: len(store.names("killed/_archive/state/")) > 2 or driver.is_over(), "some steps", seconds=600
            )
        finally:
            driver.kill()
        left = run(store, tmp_path, broker, *killed)
        assert 0 < left["messages_archived"] < left["messages_in_archive"] == MESSAGES, driver.output()
        assert replayed(store, tmp_path, broker, "killed") == arrived(broker, topic)

        shared = ["archive", "--topics", topic, "--to", f"{store.files}/shared", "--batch-messages", str(A_STEP)]
        env = environment(tmp_path)
        both = [Submitted(command(store, broker, *shared), tmp_path, tmp_path / f"{one}.log", env) for one in "ab"]
        try:
            codes = sorted(each.wait() for each in both)
        finally:
            for each in both:
                each.kill()
        told = "\n".join(each.output() for each in both)
        assert codes[0] == 0, told
        assert codes[1] == 0 or "another run is archiving into" in told, told
        assert run(store, tmp_path, broker, *shared)["messages_in_archive"] == MESSAGES
        assert replayed(store, tmp_path, broker, "shared") == arrived(broker, topic)


def replayed(store: S3, home: Path, broker: Serving, archive: str) -> Any:
    """Return what the messages of an archive are, in a topic of their own."""
    copies = make_topic(broker, f"Of-{archive}")
    facts = run(store, home, broker, "replay", "--archive", f"{store.files}/{archive}", "--to", copies)
    assert facts["messages_sent"] == MESSAGES
    return arrived(broker, copies)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_of_many_who_commit_to_s3_one_is_told_that_it_did(store: S3, tmp_path: Path) -> None:
    words = [str(BIN / "spark-submit"), "--master", MASTER, *confs({**CONF, **store.settings}), str(PROGRAM)]
    printed = output_of([*words, f"s3a://{BUCKET}"], environment(tmp_path), tmp_path, timeout_s=500)
    (told,) = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert told["knows_who_was_first"]
    assert [len(won) for won in told["winners"]] == [1] * len(told["winners"])
    assert told["only_states_of_winners"]
    assert told["left_beside_them"] == 0
    assert (told["cut_off_version"], told["cut_off_files"]) == (1, ["t/a.parquet"])
    assert "another run is archiving into" in told["refused"]
    assert told["kept"] == "first"
    assert told["left_before_and_after_a_day"] == [1, 0]
