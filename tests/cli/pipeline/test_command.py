"""`hanabi pipeline` as its users see it, up to where Spark would be started; runs are in `tests/spark/pipelines`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.admin_commands import run
from tests.cli.commands import environment, refused

PIPELINES = ["archive", "replay", "dead-letters", "traffic", "trace", "orders", "audit"]


def said(*arguments: str) -> str:
    result = run("pipeline", *arguments)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def refusal(code: int, *arguments: str) -> str:
    return refused(run("pipeline", *arguments), code)


def test_pipelines_are_listed() -> None:
    assert [row.split()[0] for row in said("list").splitlines()[1:]] == PIPELINES
    assert [each["name"] for each in json.loads(said("list", "--json"))] == PIPELINES


def test_a_pipeline_shows_every_option_with_its_type_default_and_meaning() -> None:
    lines = said("show", "archive").splitlines()
    assert lines[0].startswith("archive: Copy topics to Parquet")
    rows = {line.split()[0]: line for line in lines[3:]}
    assert "required" in rows["--to"]
    assert "a whole number, at least 1" in rows["--batch-messages"]
    assert "1000000" in rows["--batch-messages"]
    assert "one of delta, parquet" in rows["--format"]
    options = {each["name"]: each for each in json.loads(said("show", "archive", "--json"))["options"]}
    assert options["batch-messages"] == {
        "name": "batch-messages",
        "type": "a whole number, at least 1",
        "default": 1_000_000,
        "required": False,
        "meaning": "messages per step",
    }


def test_what_is_written_wrongly_is_told_before_spark_is_started(tmp_path: Path) -> None:
    assert refusal(2, "show", "archve") == "there is no pipeline 'archve': did you mean 'archive'?"
    assert refusal(2, "run", "zzz") == "there is no pipeline 'zzz': `hanabi pipeline list` shows them all"
    assert refusal(2, "run", "archive") == (
        "pipeline archive needs --to: the archive: a directory or URL that all of Spark's machines can reach"
    )
    assert refusal(2, "run", "archive", "--to", "x") == ("no topics to archive: give --topics or --pattern")
    assert refusal(2, "run", "archive", "--topic", "x") == (
        "pipeline archive has no option --topic: did you mean '--topics'?"
    )
    assert refusal(2, "run", "archive", "--to", "x", "--topics", "a", "--conf", "memory") == (
        "--conf 'memory': must be KEY=VALUE, such as spark.driver.memory=4g"
    )
    log = tmp_path / "none" / "spark.log"
    assert refusal(2, "run", "archive", "--to", "x", "--topics", "a", "--log", str(log)) == (
        f"--log {log} cannot be written: No such file or directory"
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("topics: [a", "--config FILE is not YAML: "),
        ("- a", "--config FILE: must be options and their values, such as `topics: [Orders]`"),
        ("topic: a", "FILE: pipeline archive has no option topic: did you mean 'topics'?"),
        ("to: x\nbatch-messages: many", "option batch-messages='many': must be a whole number, at least 1"),
        ("to: x\nmaster: [a]", "--config FILE: master=['a'] must be text, such as local[4]"),
        ("to: x\nconf: fast", "--config FILE: conf must be settings of Spark, such as `spark.driver.memory: 4g`"),
        ("", "pipeline archive needs --to: "),
    ],
)
def test_what_is_wrong_in_a_file_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "archive.yaml"
    file.write_text(text)
    assert refusal(2, "run", "archive", "--config", str(file)).startswith(sentence.replace("FILE", str(file)))
    assert "No such file" in refusal(2, "run", "archive", "--config", str(tmp_path / "none.yaml"))


def test_without_spark_pipelines_are_listed_and_it_is_said_what_to_install() -> None:
    def without_spark(*arguments: str) -> "subprocess.CompletedProcess[str]":
        program = "import sys; sys.modules['pyspark'] = sys.modules['pyarrow'] = sys.modules['numpy'] = None\n"
        program += "from hanabi.cli.main import main; main()"
        command = [sys.executable, "-c", program, "pipeline", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)

    listed = without_spark("list")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "archive" in listed.stdout
    assert refused(without_spark("show", "archive"), 2) == (
        "pipelines need pyspark, which is not installed: pip install '.[spark]' in a clone of Hanabi"
    )
