"""Texts become numbers as in Java, and numbers are compared as there."""

import math

import pytest

from hanabi.broker.filters.sql.java_numbers import compare_doubles, java_boolean, java_double, java_int, java_long


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("-7", -7), ("+7", 7), ("007", 7), ("2147483647", 2**31 - 1), ("-2147483648", -(2**31)), ("٣", 3)],
)
def test_whole_numbers_of_32_bits(text: str, number: int) -> None:
    assert java_int(text) == java_long(text) == number


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "1.0", "1e3", "1_0", "1L", "0x1", "+", "--1", "²", "𝟏", "abc", "9" * 5_000]
)
def test_what_is_no_whole_number(text: str) -> None:
    with pytest.raises(ValueError):
        java_int(text)
    with pytest.raises(ValueError):
        java_long(text)


@pytest.mark.parametrize("text", ["2147483648", "-2147483649", "9223372036854775807", "-9223372036854775808"])
def test_whole_numbers_of_64_bits_only(text: str) -> None:
    assert java_long(text) == int(text)
    with pytest.raises(ValueError):
        java_int(text)


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809"])
def test_whole_numbers_beyond_64_bits(text: str) -> None:
    with pytest.raises(ValueError):
        java_long(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("-1.5e3", -1500.0),
        (" \t1.5\n", 1.5),
        ("1f", 1.0),
        ("1e2D", 100.0),
        ("0x1p3", 8.0),
        ("-0x.8P-1f", -0.25),
        ("0x1.fffffffffffff8p1023", math.inf),
        ("-0x1p9999", -math.inf),
        ("1e400", math.inf),
        ("1e-400", 0.0),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
    ],
)
def test_numbers_with_a_fraction(text: str, number: float) -> None:
    assert java_double(text) == number


@pytest.mark.parametrize(
    "text",
    ["", " ", ".", "e5", "1e", "1_0", "inf", "nan", "infinity", "0x1", "1,5", "1\u00a0", "٣", "NaNf", "1ff", "+-1"],
)
def test_what_is_no_number_with_a_fraction(text: str) -> None:
    with pytest.raises(ValueError):
        java_double(text)


def test_doubles_have_a_total_order() -> None:
    ordered = [-math.inf, -1.0, -0.0, 0.0, 5e-324, 1.0, math.inf, math.nan]
    for i, left in enumerate(ordered):
        for j, right in enumerate(ordered):
            assert (compare_doubles(left, right) > 0) == (i > j)
            assert (compare_doubles(left, right) < 0) == (i < j)


def test_only_true_is_true() -> None:
    assert java_boolean("true")
    assert java_boolean("TrUe")
    assert not any(map(java_boolean, ["yes", "1", " true", ""]))
