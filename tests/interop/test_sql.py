"""Our SQL92 filters answer every question as Apache's own do, and set the same bits."""

import random
from collections.abc import Iterable

import pytest

from hanabi.broker.filters.bloom import BloomFilter, bit_mask
from hanabi.broker.filters.sql.compiled import compile_sql
from hanabi.errors import SubscriptionParseFailed
from tests.interop.jars import ALL_5, SERVERS_4
from tests.interop.sql_cases import MESSAGES, NAMES_OF_4, Case, random_cases, written_cases
from tests.interop.sql_judge import RECORDED, Bloom, SqlJudge, recording

_SEED = 20_240_229
_NEWER = frozenset({"CONTAINS", "STARTSWITH", "ENDSWITH"})  # keywords of 5.x alone


@pytest.fixture(scope="module")
def judge_4(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> SqlJudge:
    return SqlJudge(tmp_path_factory.mktemp("sql-judge-4"), SERVERS_4)


@pytest.fixture(scope="module")
def judge_5(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> SqlJudge:
    return SqlJudge(tmp_path_factory.mktemp("sql-judge-5"), ALL_5)


def _ours(case: Case) -> str:
    expression, properties = case
    try:
        compiled = compile_sql(expression)
    except SubscriptionParseFailed:
        return "syntax"
    try:
        result = compiled.evaluate(properties)
    except ValueError:
        return "throws"
    return "null" if result is None else str(result).lower()


def _has_newer_word_as_name(expression: str) -> bool:
    try:
        return not _NEWER.isdisjoint(name.upper() for name in compile_sql(expression).names)
    except SubscriptionParseFailed:
        return False


def _differences(judge: SqlJudge, cases: Iterable[Case]) -> list[str]:
    asked = list(cases)
    answers = judge.evaluate(asked)
    assert len(answers) == len(asked)
    return [
        f"{case}: Apache {theirs}, ours {ours}"
        for case, theirs in zip(asked, answers, strict=True)
        if theirs != (ours := _ours(case))
    ]


def test_written_expressions_are_answered_as_by_apache(judge_5: SqlJudge) -> None:
    assert _differences(judge_5, written_cases()) == []


def test_the_recorded_answers_are_apaches(judge_5: SqlJudge) -> None:
    assert RECORDED.read_text() == recording(judge_5)


def test_random_expressions_are_answered_as_by_apache(judge_5: SqlJudge) -> None:
    cases = (case for case in random_cases(_SEED, 4_000) if not _has_newer_word_as_name(case[0]))
    assert _differences(judge_5, cases)[:20] == []


def test_expressions_without_the_newer_keywords_are_answered_as_by_apache_4(judge_4: SqlJudge) -> None:
    older = (
        case
        for cases in (written_cases(), random_cases(_SEED + 1, 2_000))
        for case in cases
        if not any(word in case[0].upper() for word in _NEWER)
    )
    assert _differences(judge_4, older)[:20] == []


def test_the_newer_keywords_are_still_names_where_apache_4_took_them_for_names(judge_4: SqlJudge) -> None:
    cases = [(text, {**message, "contains": "x", "endsWith": "5"}) for text in NAMES_OF_4 for message in MESSAGES]
    assert _differences(judge_4, cases) == []


def test_bloom_filters_have_the_same_sizes_and_bits_as_apaches(judge_4: SqlJudge, judge_5: SqlJudge) -> None:
    chance = random.Random(_SEED)
    texts = ["", "cg_sql#Golden", "ü漢😀#T", *("x" * length for length in range(1, 40))]
    filters = [(percent, expected, "group#topic") for percent in range(1, 100) for expected in (1, 7, 32, 1000)]
    filters += [(20, 32, text) for text in texts]
    filters += [
        (chance.randint(1, 99), chance.randint(1, 5000), f"{chance.getrandbits(chance.randint(1, 300)):x}")
        for _ in range(2_000)
    ]
    ours = []
    for percent, expected, text in filters:
        bloom = BloomFilter(error_percent=percent, expected=expected)
        positions = bloom.positions(text)
        ours.append(Bloom(bloom.bits, bloom.hashes, bloom.bitmap(bit_mask(positions)), positions.bit_pos))
    assert ours == judge_4.bloom(filters) == judge_5.bloom(filters)
