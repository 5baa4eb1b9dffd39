"""Java's .properties text is read as java.util.Properties reads it."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.errors import ConfigError
from hanabi.wire.java_properties import decode_properties, format_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("listenPort=9876", {"listenPort": "9876"}),
        ("listenPort = 9876 \n", {"listenPort": "9876 "}),  # Java keeps the blank at the end
        ("a:1\nb 2\nc\t=\t3\nd\n", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("a==b\nc= :d", {"a": "=b", "c": ":d"}),
        ("# a=1\n  ! b=2\n\n\t\nc=3#4", {"c": "3#4"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("fruits = apple, \\\n         pear\nx=1", {"fruits": "apple, pear", "x": "1"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),  # an empty line ends what went on
        ("a=1\\\n# no comment here", {"a": "1# no comment here"}),
        ("# a comment does not go on \\\nb=2", {"b": "2"}),
        ("a=even\\\\\nb=2", {"a": "even\\", "b": "2"}),
        ("a=cut\\", {"a": "cut"}),
        ("\\\n# a lone backslash begins nothing\nb=2", {"b": "2"}),
        (r"path=C\:\\data\tx", {"path": "C:\\data\tx"}),
        (r"a\ key\=\:=v", {"a key=:": "v"}),
        (r"a=\u00fc\q", {"a": "üq"}),
        (r"a=\uD83C\uDF86", {"a": "🎆"}),
        ("a=1\x0cb", {"a": "1\x0cb"}),
        ("a=x\x85y\u2028z", {"a": "x\x85y\u2028z"}),
        ("=empty key", {"": "empty key"}),
        ("", {}),
    ],
)
def test_text_is_read_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize("text", ["x=1\na=\\u12", "x=1\na=\\uZZZZ", "x=1\na=\\uD83C"])
def test_a_broken_escape_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(ConfigError, match="line 2"):
        parse_properties(text)


def test_bytes_are_utf_8_or_else_latin_1() -> None:
    assert decode_properties("a=ü".encode()) == {"a": "ü"}
    assert decode_properties("a=ü".encode("latin-1")) == {"a": "ü"}


def test_plain_values_are_written_as_apache_writes_them() -> None:
    properties = {"listenPort": "9876", "configBlackList": "a;b", "kvConfigPath": "/data/name srv/kv=1:2.json"}
    assert format_properties(properties) == (
        "listenPort=9876\nconfigBlackList=a;b\nkvConfigPath=/data/name srv/kv=1:2.json\n"
    )


@given(st.dictionaries(st.text(), st.text()))
def test_what_is_written_is_read_back(properties: dict[str, str]) -> None:
    text = format_properties(properties)
    assert text.isascii()
    assert parse_properties(text) == properties


@given(st.text(alphabet=st.sampled_from(list("ab\\u00Df =:#!\t\n\r\x0c"))))
def test_any_text_is_read_or_refused_with_our_own_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        parse_properties(text)


def test_half_a_character_is_shown_as_it_is() -> None:
    assert format_properties({"rocketmqHome": "/data/\udcff"}) == "rocketmqHome=/data/\\udcff\n"
