"""Hundreds of expressions on a dozen messages, answered as Apache's own filters answered them (5.3.3).

The answers were recorded by `tests/interop/sql_judge.py`; `tests/interop/test_sql.py` asks Apache again, and more.
"""

import json
from pathlib import Path

import pytest

from hanabi.broker.filters.sql.compiled import compile_sql
from hanabi.errors import SubscriptionParseFailed
from hanabi.wire.message.properties import encode_properties
from tests.interop.sql_cases import EXPRESSIONS, MESSAGES

RECORDED: dict[str, str] = json.loads(Path(__file__).with_name("apache_answers.json").read_text())


def _answers(expression: str) -> list[str]:
    try:
        compiled = compile_sql(expression)
    except SubscriptionParseFailed:
        return ["syntax"] * len(MESSAGES)
    answers = []
    for message in MESSAGES:
        try:
            answers.append({True: "true", False: "false", None: "null"}[compiled.evaluate(message)])
        except ValueError:
            answers.append("throws")
    return answers


def test_every_expression_has_a_recorded_answer() -> None:
    assert set(EXPRESSIONS) == set(RECORDED)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_the_answers_are_apaches(expression: str) -> None:
    assert _answers(expression) == RECORDED[expression].split()


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_message_matches_only_if_the_answer_is_true_decoded_or_not(expression: str) -> None:
    answers = RECORDED[expression].split()
    if "syntax" in answers:
        return
    compiled = compile_sql(expression)
    assert [compiled.matches(message) for message in MESSAGES] == [answer == "true" for answer in answers]
    # An empty value does not survive encoding, so what is read back is judged.
    for message in MESSAGES:
        kept = {name: value for name, value in message.items() if value}
        assert compiled.matches_raw(encode_properties(message)) == compiled.matches(kept)
