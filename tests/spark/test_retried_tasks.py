"""Tasks that Spark tries again: every Python worker is killed once in the middle of its rows, which come in another
order then.

The sink's rows arrive deduplicated each once, and every pipeline counts each message once.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hanabi.spark.sink.row_ids import ROW_ID_PROPERTY
from tests.spark.broker_world import rows
from tests.spark.dying_daemon import DEATHS
from tests.spark.scenario_subjects import RETRIED, Audit, Replay
from tests.spark.scenario_world import World, scenario_world
from tests.spark.standalone import environment

COUNT = 600
PROGRAM = Path(__file__).parent / "retry_program.py"
ROOT = Path(__file__).parents[2]


def outcomes(world: World, home: Path) -> Any:
    deaths = home / "deaths"
    deaths.mkdir()
    told = {"namesrv": world.namesrv, "store": str(world.written("Input")), "out": str(world.out)}
    command = [sys.executable, str(PROGRAM), json.dumps(told | {"deaths": str(deaths), "count": COUNT})]
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = environment(home) | {"PYTHONPATH": paths, DEATHS: str(deaths)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=800, env=env, cwd=home)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_worker_that_is_killed_in_every_task_loses_and_repeats_nothing(tmp_path: Path) -> None:
    with scenario_world(tmp_path) as world:
        for topic in ("SinkBatch", "SinkStream", Replay.target):
            world.make(topic, 2)
        for kind in RETRIED:
            if not world.stored[kind.topic]:
                world.make(kind.topic, 2)
                kind().put(world, range(COUNT), 2)
        stored = sum(world.stored.values())
        found = outcomes(world, tmp_path)
        for name in ("sink of a batch", "sink of a stream"):
            assert (found[name]["count"], found[name]["different"]) == (COUNT, COUNT), "deduplicated: each once"
            assert found[name]["sent"] > COUNT, "some were sent by the first attempt and by the second"
        counts = {kind.name: found[kind.name]["count"] for kind in RETRIED}
        assert counts.pop(Audit.name) == stored
        assert set(counts.values()) == {COUNT}, counts
        assert all(each["deaths"] for each in found.values()), found

        replayed = Counter(row["properties"][Replay.mark] for row in rows(world, "properties", subscribe=Replay.target))
        assert len(replayed) == COUNT, "each was sent, and those that were sent again have the same mark"
        row_ids = {row["properties"][ROW_ID_PROPERTY] for row in rows(world, "properties", subscribe="SinkBatch")}
        assert len(row_ids) == COUNT
