"""Asks Apache's own filters, in rocketmq-filter's jar, what they answer.

python -m tests.interop.sql_judge      records the answers that tests/broker/filters compares with, without Java
"""

import json
import subprocess
import tempfile
from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.interop.apache import java, java_environment
from tests.interop.jars import ALL_5, JAVA, classpath
from tests.interop.sql_cases import EXPRESSIONS, MESSAGES, Case, written_cases

SOURCE = JAVA / "judges" / "SqlJudge.java"  # run from its source: not every jar set has the classes it needs
RECORDED = Path(__file__).parent.parent / "broker" / "filters" / "sql" / "apache_answers.json"
TIMEOUT_S = 300


class Bloom(NamedTuple):
    """Size and bits of a bloom filter for a text."""

    bits: int
    hashes: int
    bitmap: bytes
    positions: tuple[int, ...]


class SqlJudge:
    """Apache's answers of one release. Starts a JVM for each set of questions."""

    def __init__(self, home: Path, jar_set: str) -> None:
        self._command = java(home, classpath(jar_set), str(SOURCE))

    def evaluate(self, cases: Iterable[Case]) -> list[str]:
        """Return for each case "syntax", "true", "false", "null" or "throws"."""
        return self._ask(
            "\t".join(["sql", _coded(expression), *(_coded(part) for pair in properties.items() for part in pair)])
            for expression, properties in cases
        )

    def bloom(self, filters: Iterable[tuple[int, int, str]]) -> list[Bloom]:
        """Return for each (error rate in percent, expected texts, text) the size of the filter, and the bits of the
        text."""
        lines = self._ask(f"bloom\t{percent}\t{expected}\t{_coded(text)}" for percent, expected, text in filters)
        answers = []
        for line in lines:
            bits, hashes, bitmap, *positions = line.split()
            answers.append(
                Bloom(int(bits), int(hashes), bytes.fromhex(bitmap.removeprefix("0x")), tuple(map(int, positions)))
            )
        return answers

    def _ask(self, questions: Iterable[str]) -> list[str]:
        done = subprocess.run(
            self._command,
            input="".join(question + "\n" for question in questions),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=java_environment(),
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


def _coded(text: str) -> str:
    return b64encode(text.encode()).decode()


def recording(judge: SqlJudge) -> str:
    """Return the answers to all written expressions, one for each of the messages, as the file has them."""
    answers = iter(judge.evaluate(written_cases()))
    table = {expression: " ".join(next(answers) for _ in MESSAGES) for expression in EXPRESSIONS}
    return json.dumps(table, indent=0, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        RECORDED.write_text(recording(SqlJudge(Path(home), ALL_5)))
