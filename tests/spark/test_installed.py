"""`spark-submit` on a cluster where only the package is installed, from its wheel, beside pyspark."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving import serving
from tests.spark.broker_world import make_topic, send
from tests.spark.standalone import standalone

ROOT = Path(__file__).parent.parent.parent
PROGRAM = Path(__file__).parent / "installed_program.py"
MESSAGES = 300


def call(*command: str | Path) -> None:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield an environment with the wheel, and with what the extra `spark` brings: nothing of this one is in it."""
    home = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    call(*pip, "wheel", "--no-deps", "--wheel-dir", home, ROOT)
    (wheel,) = home.glob("hanabi_mq-*.whl")
    call(sys.executable, "-m", "venv", home / "venv")
    wanted = f"{wheel}[spark]"
    call(*pip, "--python", home / "venv", "install", "--constraint", ROOT / "constraints.txt", wanted)
    yield home / "venv"
    shutil.rmtree(home)  # half a gigabyte


@pytest.mark.slow
@pytest.mark.timeout(1_800)  # some minutes where Spark is not in pip's cache
def test_a_submitted_program_finds_the_format_where_only_the_package_is_installed(
    environment: Path, tmp_path: Path
) -> None:
    (package,) = environment.glob("lib/python3*/site-packages")
    python, spark_bin = str(environment / "bin" / "python"), package / "pyspark" / "bin"
    with (
        standalone(tmp_path / "cluster", python, spark_bin) as cluster,
        serving(tmp_path / "broker") as broker,
    ):
        topic = make_topic(broker, "Orders")
        send(broker, topic, [f"{number}" for number in range(MESSAGES)])
        submitted = cluster.submit(PROGRAM, broker.namesrv, topic, str(tmp_path / "files"))
        assert submitted.wait() == 0, submitted.output()
    (told,) = [json.loads(line) for line in submitted.output().splitlines() if line.startswith("{")]
    assert told == {"rows": MESSAGES, "places": [str(package / "hanabi" / "__init__.py")]}
