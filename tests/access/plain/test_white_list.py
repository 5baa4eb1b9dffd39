"""White-list patterns, against a slow reference that compares text part by part, as the contract describes it."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.access.address import Address, source_address
from hanabi.access.plain.white_list import WhiteList
from hanabi.errors import ConfigError

small = st.integers(0, 3) | st.integers(250, 255)
addresses_4 = st.tuples(small, small, small, small).map(lambda parts: ".".join(map(str, parts)))
small_6 = st.integers(0, 3) | st.integers(0xFFFD, 0xFFFF)
addresses_6 = st.lists(small_6, min_size=8, max_size=8).map(lambda parts: ":".join(f"{part:x}" for part in parts))


@st.composite
def part_patterns(draw: st.DrawFn, parts: st.SearchStrategy[int], base: str) -> str:
    """Return a number, a range, or `*`."""
    low, high = sorted((draw(parts), draw(parts)))
    return draw(st.sampled_from((f"{low:{base}}", f"{low:{base}}-{high:{base}}", "*")))


@st.composite
def patterns_4(draw: st.DrawFn) -> str:
    first = str(draw(small))
    return ".".join([first, *(draw(part_patterns(small, "d")) for _ in range(3))])


def reference_4(pattern: str, address: str) -> bool:
    """Compare from the left; the first wildcard or range decides."""
    for wanted, part in zip(pattern.split("."), address.split("."), strict=True):
        if wanted == "*":
            return True
        if "-" in wanted:
            low, high = wanted.split("-")
            return int(low) <= int(part) <= int(high)
        if wanted != part:
            return False
    return True


@given(patterns_4(), addresses_4)
def test_an_ipv4_pattern_matches_as_the_slow_reference(pattern: str, address: str) -> None:
    assert WhiteList([pattern]).matches(ip_address(address)) == reference_4(pattern, address)


@st.composite
def patterns_6(draw: st.DrawFn) -> list[str]:
    """Return the eight parts of a pattern whose last part is open, or whose last two are."""
    low, high = sorted((draw(small_6), draw(small_6)))
    closed = [f"{draw(small_6):x}" for _ in range(8)]
    return draw(
        st.sampled_from(
            (
                [*closed[:7], "*"],
                [*closed[:7], f"{low:x}-{high:x}"],
                [*closed[:6], f"{low:x}-{high:x}", "*"],
            )
        )
    )


def reference_6(parts: list[str], address: str) -> bool:
    for wanted, part in zip(parts, address.split(":"), strict=True):
        if wanted == "*":
            return True
        if "-" in wanted:
            low, high = wanted.split("-")
            return int(low, 16) <= int(part, 16) <= int(high, 16)
        if int(wanted, 16) != int(part, 16):
            return False
    return True


def shortened(parts: list[str]) -> str:
    """Write the first run of at least two zeros as `::`."""
    text = ":".join(parts)
    for count in range(7, 1, -1):
        zeros = ":".join(["0"] * count)
        for start in range(8 - count):
            if parts[start : start + count] == ["0"] * count:
                head, tail = ":".join(parts[:start]), ":".join(parts[start + count :])
                assert zeros in text
                return f"{head}::{tail}"
    return text


@given(patterns_6(), addresses_6)
def test_an_ipv6_pattern_matches_as_the_slow_reference(parts: list[str], address: str) -> None:
    expected = reference_6(parts, address)
    assert WhiteList([":".join(parts)]).matches(ip_address(address)) == expected
    assert WhiteList([shortened(parts)]).matches(ip_address(address)) == expected
    assert WhiteList([shortened(parts).upper()]).matches(ip_address(address)) == expected


@given(st.lists(addresses_4 | addresses_6, min_size=1), addresses_4 | addresses_6)
def test_a_list_matches_its_members_alone(members: list[str], address: str) -> None:
    assert WhiteList([",".join(members)]).matches(ip_address(address)) == (address in members)
    assert WhiteList(members).matches(ip_address(address)) == (address in members)


@given(addresses_4, st.lists(small, min_size=1), small)
def test_braces_stand_for_the_last_part(address: str, last: list[int], other: int) -> None:
    head = address.rpartition(".")[0]
    pattern = f"{head}.{{{','.join(map(str, last))}}}"
    assert WhiteList([pattern]).matches(IPv4Address(f"{head}.{other}")) == (other in last)


@given(st.ip_addresses())
def test_an_address_matches_itself_and_every_open_pattern(address: Address) -> None:
    for pattern in (str(address), "*", "*.*.*.*", "*:*:*:*:*:*:*:*"):
        assert WhiteList([pattern]).matches(address)


@given(st.ip_addresses())
def test_a_blank_pattern_and_an_empty_list_match_nothing(address: Address) -> None:
    assert not WhiteList([]).matches(address)
    assert not WhiteList(["", "  "]).matches(address)


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("fe80::{1,a}", "fe80::a", "fe80::2"),
        ("1:2::*", "1:2::ffff", "1:2:0:0:1::"),
        ("1:2::1-ff", "1:2::5", "1:2::100"),
        ("1:2::1-ff:*", "1:2::5:9", "1:2::9"),
        ("1:2:3:*", "1:2:3:4:5:6:7:8", "1:2:4:4:5:6:7:8"),
        ("::1-2", "::2", "::3"),
        ("::1", "0:0:0:0:0:0:0:1", "::2"),
        (" 1.2.3.4 , 5.6.7.8 ", "5.6.7.8", "5.6.7.9"),
        ("1.2.3.0-0", "1.2.3.0", "1.2.3.1"),
        ("1.2.4-90.7", "1.2.50.99", "1.2.91.7"),
    ],
)
def test_examples_match_inside_and_not_outside(pattern: str, inside: str, outside: str) -> None:
    assert WhiteList([pattern]).matches(ip_address(inside))
    assert not WhiteList([pattern]).matches(ip_address(outside))


@pytest.mark.parametrize(
    "pattern",
    [
        "1.2.3",
        "1.2.3.4.5",
        "1.2.3.256",
        "1.2.3.-5",
        "1.2.3.5-",
        "1.2.3.9-5",
        "1.2.3.4-5-6",
        "*.1.2.3",
        "1-2.3.4.5",
        "1.2.*.x",
        "1.2.3.{4",
        "1.2.3.{4}5",
        "1.2.3{4,5}",
        "1.2.3.{{4}}",
        "1.2.3.4,x",
        "host.example",
        "1:2:*:3",
        "1:2::1-ff:3",
        "1:2::10000-1ffff",
        "1:2:3:4:5:6:7:8:*",
        "::1::*",
        "1.2.3.4/24",
        "fe80::1%eth0",
        "٣.2.3.*",
        "-",
        "{",
        ",".join(["1.2.3.4"] * 1001),
    ],
)
def test_a_malformed_pattern_is_a_clear_error(pattern: str) -> None:
    with pytest.raises(ConfigError, match="address pattern"):
        WhiteList([pattern])


@given(st.text(alphabet="0123456789abcdef.:*-,{}% ", max_size=30), st.ip_addresses())
def test_any_text_is_read_or_refused(pattern: str, address: Address) -> None:
    try:
        white_list = WhiteList([pattern])
    except ConfigError:
        return
    white_list.matches(address)


def test_a_peer_without_an_ip_address_is_matched_by_an_open_list_only() -> None:
    assert source_address("broker.example") is None
    assert not WhiteList(["1.2.3.*"]).matches(None)
    assert WhiteList(["*"]).matches(None)


def test_an_ipv4_address_by_an_ipv6_socket_counts_as_what_it_is() -> None:
    assert source_address("::ffff:1.2.3.4") == IPv4Address("1.2.3.4")
    assert source_address("fe80::1%eth0") == IPv6Address("fe80::1")
