"""Every example runs as it stands, against `hanabi serve` in a process of its own."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving import Serving, serving

EXAMPLES = Path(__file__).parent.parent / "examples"
SECONDS = 180
DEMO_SECONDS = 360  # twice what we promise, for a machine that does other things

# What each example prints, as far as it is the same each time.
SEEN = {
    "send_and_consume.py": ["sent order 2: SEND_OK to broker-a", "billed order 0, keys ('0',), tags created"],
    "send_and_consume_asyncio.py": ["sent 500 messages", "consumed 500 messages"],
    "ordered.py": [f"order {number}: created -> paid -> packed -> sent" for number in (1001, 1002, 1003)],
    "delayed_and_timed.py": ["at once: after ", "delayed: after ", "timed: after "],
    "batch.py": ["sent 5000 messages to ", "stored: GET /page/0, GET /page/1, GET /page/2"],
    "transaction.py": [
        "order of 10: COMMIT",
        "order of -20: ROLLBACK",
        "order of 30: UNKNOWN",
        "the broker asks about the order of 30: written",
        "shipped: ['10', '30']",
    ],
    "filters.py": [
        "created or paid: ['created 50', 'paid 150', 'paid 20']",
        "more than 100: ['cancelled 500', 'paid 150']",
    ],
    "broadcasting.py": [f"{name} got change {number}" for name in ("left", "right") for number in range(3)],
    "request_reply.py": ["1 + 2 = 3", "20 + 22 = 42"],
    "lite_pull.py": ["polled 100 rows", "again from offset 0", "the last one of its queue: True"],
    "retry_and_dead_letter.py": [
        "try 1 of 'to nowhere'",
        "try 3 of 'to nowhere'",
        "dead letter: 'to nowhere', keys ('P-1',)",
    ],
    "deduplicate.py": ["charged 1 of 2 arrivals of payment P-7", "charged 1 of 1 arrivals of payment P-8"],
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("examples")) as running:
        yield running


def run(name: str, home: Path, *arguments: str, seconds: float = SECONDS) -> str:
    """Return what the example printed; it must end well and complain of nothing."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", EXAMPLES / name, *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, "HOME": str(home), "ROCKETMQ_OFFSETS_DIR": str(home / "offsets"), "TMPDIR": str(home)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", SEEN)
def test_an_example_does_what_it_says(cluster: Serving, tmp_path: Path, name: str) -> None:
    seen = run(name, tmp_path, cluster.namesrv)
    position = 0
    for line in SEEN[name]:
        assert line in seen
        if name != "send_and_consume.py":  # there, threads print
            assert (position := seen.find(line, position)) >= 0, f"{line!r} comes too early:\n{seen}"


def test_no_example_is_left_out() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*SEEN, "demo.py"}


def test_the_demo_sees_everything_it_sent_and_spark_adds_it_up(tmp_path: Path) -> None:
    seen = run("demo.py", tmp_path, seconds=DEMO_SECONDS)
    assert "the steps of order A in order: created -> paid -> sent" in seen
    assert "order O-7 was tried 2 times and is now a dead letter: ['O-7']" in seen
    if "left out: Spark" not in seen:  # no Java
        assert re.search(r"duplicates left out +1\n", seen)
        assert re.search(r"orders in all +10\n", seen)
        assert "4 totals of hours that are over are messages of topic Totals" in seen
    assert seen.endswith("5. all seen: 19 messages consumed, 1 rolled back, 1 dead letter. The server has stopped.\n")
    assert not list(tmp_path.glob("hanabi-demo-*"))
