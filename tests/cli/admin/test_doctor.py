"""`hanabi doctor` as its users see it: what it writes, and how it ends. What it finds: tests/doctor."""

import json
import re
from pathlib import Path

from tests.cli.admin_commands import run
from tests.cli.shapes import DOCUMENT, check, shape_of
from tests.doctor.test_rules import CASES
from tests.serving import Serving, serving


def test_a_well_cluster_is_one_line_and_code_0(tmp_path: Path) -> None:
    with serving(tmp_path) as cluster:
        well = run("doctor", "-n", cluster.namesrv)
        assert (well.returncode, well.stderr) == (0, "")
        assert well.stdout == "Looked at 1 name server, 1 broker, 0 topics, 0 groups: nothing is wrong.\n"


def test_what_is_wrong_is_told_with_reason_and_remedy_and_code_1(cluster: Serving) -> None:
    both = f"{cluster.namesrv};127.0.0.1:1"
    ill = run("doctor", "--interval", "0", "-n", both)
    assert (ill.returncode, ill.stderr) == (1, "")
    first, why, todo = ill.stdout.splitlines()[:3]
    assert first.startswith("ERROR   the name server 127.0.0.1:1 does not answer: ")
    assert why.startswith("        Why: ")
    assert todo.startswith("        Do:  ")
    told = run("doctor", "--interval", "0", "--json", "-n", both)
    assert told.returncode == 1
    check(shape_of(("doctor",)), told.stdout)
    finding = json.loads(told.stdout)["findings"][0]
    assert (finding["severity"], finding["rule"]) == ("error", "name-server-unreachable")


def test_where_nobody_can_be_asked_the_code_is_2() -> None:
    nobody = run("doctor", "-n", "127.0.0.1:1")
    assert (nobody.returncode, nobody.stdout) == (2, "")
    assert nobody.stderr.startswith("hanabi: no name server can be reached (-n, --namesrv): ")


def test_every_rule_is_documented() -> None:
    _, _, table = DOCUMENT.read_text().partition("| rule | severity |")
    rows = table.partition("\n\n")[0]
    assert set(re.findall(r"`([a-z-]+)`", rows)) == {rule for rule, _, _, _ in CASES}
