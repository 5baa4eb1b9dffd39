"""`hanabi pipeline run` in a process of its own, on a cluster; and what arrived in a topic."""

import json
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cli.commands import HANABI
from tests.serving import Serving
from tests.spark.broker_world import rows


def confs(settings: Mapping[str, str]) -> list[str]:
    """*settings* of Spark as words of a command line."""
    return [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]


def output_of(command: list[str], env: Mapping[str, str], home: Path, timeout_s: float) -> str:
    """Return what *command* prints, which must come to a good end."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=timeout_s, env=dict(env), cwd=home
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def pipeline_command(broker: Serving, master: str, settings: Mapping[str, str], *arguments: str) -> list[str]:
    """Return its answer is JSON, for `facts_in`."""
    place = ["-n", broker.namesrv, "--master", master, *confs(settings)]
    return [*HANABI, "pipeline", "run", *arguments, *place, "--json"]


def facts_in(answer: str) -> Any:
    """Return the facts of a pipeline that has nothing to complain of."""
    told = json.loads(answer)
    assert told["complaint"] is None
    return told["facts"]


def arrived(broker: Serving, topic: str) -> Counter[tuple[object, ...]]:
    """Keys, body and tags of every message of *topic*."""
    found = rows(broker, "keys body tags", subscribe=topic)
    return Counter((*row["keys"], row["body"], row["tags"]) for row in found)
