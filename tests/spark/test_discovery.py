"""The package that Spark imports to find the format: it works, or it says why not, but it never fails to import."""

import subprocess
import sys

import pytest

from hanabi.errors import ConfigError
from hanabi.spark.shared.suggestions import did_you_mean
from hanabi.spark.shared.versions import check_version

USE = "from pyspark_rocketmq_store import DefaultSource as S; print(S.name()); S(options={'path': '/nowhere'})"


def run(preparation: str) -> "subprocess.CompletedProcess[str]":
    """Use the format in a fresh Python, after *preparation*."""
    return subprocess.run(
        [sys.executable, "-c", f"{preparation}\n{USE}"], capture_output=True, text=True, check=False, timeout=120
    )


def test_the_format_is_offered_under_its_name() -> None:
    done = run("")
    assert done.stdout == "rocketmq-store\n"
    assert done.stderr.rstrip().endswith("StoreError: /nowhere does not exist")


@pytest.mark.parametrize("missing", ["pyarrow", "numpy", "msgspec"])
def test_where_a_package_is_missing_the_use_says_so_and_the_import_does_not_fail(missing: str) -> None:
    done = run(f"import sys; sys.modules['{missing}'] = None")
    assert done.stdout == "rocketmq-store\n"
    assert "rocketmq-store needs pip install '.[spark]' in a clone of Hanabi" in done.stderr
    assert missing in done.stderr.splitlines()[-1]


def test_without_pyspark_the_import_does_not_fail() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.modules['pyspark'] = None; import pyspark_rocketmq_store"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("version", ["4.0.0", "4.1.2", "3.5.6"])
def test_an_older_spark_is_told_in_a_sentence(version: str) -> None:
    with pytest.raises(ConfigError, match=rf"need pyspark 4\.2 or newer, this is {version}: pip install"):
        check_version(version)
    done = run(f"import pyspark; pyspark.__version__ = '{version}'")
    assert f"this is {version}" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("version", ["4.2.0", "4.3.0", "4.10.0.dev1", "5.0.0", "unknown"])
def test_newer_versions_are_taken(version: str) -> None:
    check_version(version)


def test_a_name_that_is_near_is_suggested_and_no_other() -> None:
    assert did_you_mean("Subscrib", ["subscribe", "tags"]) == ": did you mean 'subscribe'?"
    assert did_you_mean("xyz", ["subscribe", "tags"]) == ""
