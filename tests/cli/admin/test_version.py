"""`hanabi version`: this program's version beside those of the brokers."""

import json

import hanabi
from tests.cli.admin_commands import answer, run, said
from tests.serving import Serving


def test_the_version_of_a_broker_stands_beside_the_one_of_its_protocol(cluster: Serving) -> None:
    found = answer(cluster, "version")
    (broker,) = found["brokers"]
    assert found["hanabi"] == hanabi.__version__
    assert (broker["broker"], broker["protocol"], broker["program"]) == (
        "broker-a",
        "V4_9_8",
        f"Hanabi {hanabi.__version__}",
    )
    assert f"Hanabi {hanabi.__version__}" in said(cluster, "version")


def test_a_cluster_that_does_not_answer_is_no_error() -> None:
    result = run("version", "-n", "127.0.0.1:1", "--json")
    assert result.returncode == 0
    found = json.loads(result.stdout)
    assert (found["hanabi"], found["brokers"]) == (hanabi.__version__, [])
    assert "127.0.0.1:1" in found["problem"]
    assert "no broker was asked" in result.stderr
