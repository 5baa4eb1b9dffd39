"""Apache's mqadmin prints the same with our name server as with Apache's.

Apache's name server here is 4.9.7, the last of the 4.9 line on Maven Central. Where 4.9.8 prints something else,
its `configBlackList`, we must print what 4.9.8 does.
"""

import re

import pytest

from tests.interop.mqadmin_script import SCRIPT_4, SCRIPT_5, Transcripts

STEPS = [
    pytest.param(line, number, id=f"{line}-{number}-{step.command}")
    for line, script in (("4.9", SCRIPT_4), ("5.3", SCRIPT_5))
    for number, step in enumerate(script)
]

BLACK_LIST = f"{'configBlackList':<50}=  configBlackList;configStorePath;kvConfigPath"
# The code and the beginning are Apache's; how the sentence ends changed with 4.9.8, and ours says what may be changed.
REFUSAL = re.compile("(CODE: 16  DESC: Can not update config ).*")


def as_4_9_8_prints(lines: list[str]) -> list[str]:
    """Return what 4.9.8 prints where 4.9.7 printed *lines*."""
    if any(line.startswith("kvConfigPath") for line in lines):
        return sorted([*lines, BLACK_LIST])
    return lines


def without_the_reason(lines: list[str]) -> list[str]:
    return [REFUSAL.sub(r"\1", line) for line in lines]


@pytest.mark.parametrize(("mqadmin", "number"), STEPS)
def test_mqadmin_prints_the_same_with_our_name_server(transcripts: Transcripts, mqadmin: str, number: int) -> None:
    with_apache, with_ours = transcripts[mqadmin]
    assert without_the_reason(with_ours[number]) == without_the_reason(as_4_9_8_prints(with_apache[number]))


def test_only_the_commands_that_should_fail_do(transcripts: Transcripts) -> None:
    """Guards the comparison: two failures would be equal too."""
    for mqadmin, script in (("4.9", SCRIPT_4), ("5.3", SCRIPT_5)):
        for step, lines in zip(script, transcripts[mqadmin][0], strict=True):
            assert any("SubCommandException" in line for line in lines) == step.fails, (mqadmin, step.command, lines)
            assert lines


def test_the_cluster_compared_has_a_broker_of_each_line(transcripts: Transcripts) -> None:
    for with_apache, with_ours in transcripts.values():
        for cluster_list in (with_apache[0], with_ours[0]):
            assert {"V4_9_7", "V5_3_3"} <= {line.split()[-1] for line in cluster_list}
