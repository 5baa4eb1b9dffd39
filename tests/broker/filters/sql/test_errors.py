"""A wrong expression is refused with one sentence: where it is wrong, and what was expected there."""

import pytest

from hanabi.broker.filters.sql.compiled import compile_sql
from hanabi.broker.filters.sql.parser import CHARACTERS_MAX, DEPTH_MAX, OPERATORS_MAX, SEARCHES_MAX
from hanabi.errors import SubscriptionParseFailed
from hanabi.wire.codes import ResponseCode


@pytest.mark.parametrize(
    ("expression", "place", "reason"),
    [
        ("", "column 1", "found the end"),
        ("a = ", "column 5", "found the end"),
        ("a > > 1", "column 5", "found '>'"),
        ("a = 'x", "column 5", "no closing quote"),
        ("a = 1 /* x", "column 7", "comment that begins here has no end"),
        ("a = 1 && b = 2", "column 7", "'&'"),
        ("a NOT b", "column 7", "expected BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH behind NOT, found 'b'"),
        ("a IN (1)", "column 7", "expected a text in quotes, found '1'"),
        ("a IN ('x' 'y')", "column 11", r"expected '\)'"),
        ("1 IN ('x')", "column 1", "only a property can be IN a list"),
        ("(a = 1", "column 7", r"expected '\)', found the end"),
        ("a IS 1", "column 6", "expected 'NULL', found '1'"),
        ("a BETWEEN 1 OR 2", "column 13", "expected 'AND', found 'OR'"),
        ("a BETWEEN 3 AND 1", "column 11", "larger than the second"),
        ("a = NULL", "column 5", "write IS NULL"),
        ("b = 1 AND a > 'x'", "column 15", "only be compared with = or <>"),
        ("a > 1 > 2", "column 1", "no number"),
        ("TRUE = 1", "column 1", "another literal"),
        ("a = 1 AND 5", "column 11", "neither true nor false"),
        ("a = 9223372036854775808", "column 5", "too large or too small"),
        ("a = 0.0", "column 5", "too large or too small"),
        ("a = 1\nAND b = = 2", "line 2, column 9", "found '='"),
    ],
)
def test_the_error_says_where_and_why(expression: str, place: str, reason: str) -> None:
    with pytest.raises(SubscriptionParseFailed, match=f"at {place}: .*{reason}") as caught:
        compile_sql(expression)
    assert caught.value.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 30_000 + "a",
        "-" * 30_000 + "a > 1",
        "+" * 30_000 + "a > 1",
        "NOT " * 10_000 + "a",
        "a" + " IS NULL" * 5_000,
        "a" + " = a" * 10_000,
        "a = (" * 10_000,
        "a = 1 AND (" * 5_000,
        "-(" * 200 + "a" + ") BETWEEN 1 AND 2" * 200,
    ],
    ids=lambda expression: expression[:12],
)
def test_too_much_nesting_is_an_error_and_not_a_stack_overflow(expression: str) -> None:
    with pytest.raises(SubscriptionParseFailed, match=f"more than {DEPTH_MAX} levels"):
        compile_sql(expression)


def test_deep_but_legal_nesting_is_evaluated() -> None:
    deep = DEPTH_MAX - 1
    assert compile_sql("(" * deep + "a = 1" + ")" * deep).matches({"a": "1"})
    assert compile_sql("NOT " * deep + "a").evaluate({"a": "1"}) is True
    assert compile_sql("a = 1 AND (" * deep + "a = 1" + ")" * deep).matches({"a": "1"})
    assert compile_sql("b = 1 OR (" * deep + "a = 1" + ")" * deep).matches({"a": "1"})


def test_nested_ranges_are_looked_at_once_each() -> None:
    depth = DEPTH_MAX // 4
    expression = "-(" * depth + "a BETWEEN 1 AND 2" + ") BETWEEN 1 AND 2" * depth
    assert compile_sql(expression).evaluate({"a": "1"}) is None  # in time: twice each would be 2 ** 25 looks


def test_a_long_expression_without_nesting_is_fine() -> None:
    chain = compile_sql(" AND ".join(["a = 1"] * (OPERATORS_MAX - 1)))
    assert chain.matches({"a": "1"})
    assert not chain.matches({"a": "2"})
    many = compile_sql(f"a IN ({', '.join(repr(str(number)) for number in range(7_000))})")
    assert many.matches({"a": "6999"})
    assert not many.matches({"a": "7000"})


def test_more_operators_than_a_message_can_be_asked_about_in_time_are_refused() -> None:
    with pytest.raises(SubscriptionParseFailed, match=f"at column 1: more than {OPERATORS_MAX} operators"):
        compile_sql(" AND ".join(["a = 1"] * OPERATORS_MAX))
    searches = ["a CONTAINS 'x'"] * SEARCHES_MAX
    assert compile_sql(" OR ".join(searches)).matches({"a": "x"})
    with pytest.raises(SubscriptionParseFailed, match=f"more than {SEARCHES_MAX} CONTAINS, STARTSWITH and ENDSWITH"):
        compile_sql(" OR ".join([*searches, "a ENDSWITH 'x'"]))


def test_an_expression_over_the_limit_is_refused_before_it_is_read() -> None:
    with pytest.raises(SubscriptionParseFailed, match=f"limit {CHARACTERS_MAX}"):
        compile_sql("a" * (CHARACTERS_MAX + 1))


def test_what_stands_behind_an_expression_is_not_looked_at_but_told() -> None:
    assert compile_sql("a = 1").ignored == ""
    assert compile_sql("a = 1 -- one\n").ignored == ""
    assert compile_sql("a = 1 b = 2 @").ignored == "b = 2 @"
    assert compile_sql("a-b = 1").ignored == "-b = 1"


def test_the_names_are_told_in_the_order_in_which_they_come() -> None:
    assert compile_sql("b = 1 AND (a > c OR b IS NULL)").names == ("b", "a", "c")


def test_newer_keywords_may_still_be_names() -> None:
    assert compile_sql("contains = 'x' AND startsWith CONTAINS 'y'").matches({"contains": "x", "startsWith": "xyz"})
