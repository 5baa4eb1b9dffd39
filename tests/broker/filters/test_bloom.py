"""Bloom filters have Apache's sizes and set Apache's bits. The figures are from BloomFilter.java of 4.9.7 and 5.3.3."""

import pytest

from hanabi.broker.filters.bloom import BloomFilter, bit_mask, bitmap_number, murmur3_128_low


@pytest.mark.parametrize(
    ("percent", "expected", "bits", "hashes"),
    [
        (20, 32, 112, 3),
        (1, 1, 16, 7),
        (99, 1, 8, 1),
        (50, 8, 16, 1),
        (25, 100, 296, 2),
        (5, 32, 200, 5),
        (10, 128, 616, 4),
        (1, 10000, 95856, 7),
    ],
)
def test_sizes_follow_from_error_rate_and_expected_filters(percent: int, expected: int, bits: int, hashes: int) -> None:
    bloom = BloomFilter(error_percent=percent, expected=expected)
    assert (bloom.bits, bloom.hashes) == (bits, hashes)


@pytest.mark.parametrize(
    ("text", "positions"),
    [
        ("", (0, 0, 0)),
        ("a", (94, 99, 7)),
        ("group#topic", (79, 21, 21)),
        ("cg_sql#Golden", (40, 39, 105)),
        ("x" * 15, (59, 30, 8)),
        ("x" * 16, (73, 10, 49)),
        ("x" * 17, (94, 79, 109)),
        ("x" * 100, (27, 105, 71)),
        ("ü漢😀#T", (105, 67, 29)),
    ],
)
def test_texts_have_apaches_bits(text: str, positions: tuple[int, ...]) -> None:
    assert BloomFilter(error_percent=20, expected=32).positions(text).bit_pos == positions


def test_the_golden_stores_filter_has_its_bits() -> None:
    positions = BloomFilter(error_percent=20, expected=32).positions("cg_sql#Golden")
    assert (positions.bit_num, positions.bit_pos) == (112, (40, 39, 105))


def test_a_known_murmur_hash() -> None:
    assert murmur3_128_low(b"") == 0
    assert murmur3_128_low(b"hello") == 0xCBD8A7B341BD9B02


def test_bit_p_is_in_byte_p_by_8() -> None:
    bloom = BloomFilter(error_percent=20, expected=32)
    positions = bloom.positions("cg_sql#Golden")
    bitmap = bloom.bitmap(bit_mask(positions))
    assert len(bitmap) == 14
    assert {p for p in range(112) if bitmap[p // 8] >> p % 8 & 1} == {40, 39, 105}
    assert bitmap_number(bitmap) == bit_mask(positions)


def test_positions_of_another_size_do_not_fit() -> None:
    small, large = BloomFilter(error_percent=20, expected=32), BloomFilter(error_percent=5, expected=32)
    assert small.fits(small.positions("x"))
    assert not small.fits(large.positions("x"))
    assert not small.fits(None)


@pytest.mark.parametrize(("percent", "expected"), [(0, 32), (100, 32), (20, 0)])
def test_impossible_sizes_are_refused(percent: int, expected: int) -> None:
    with pytest.raises(ValueError):
        BloomFilter(error_percent=percent, expected=expected)
