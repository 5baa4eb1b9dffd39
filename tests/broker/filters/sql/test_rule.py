"""Filter rules: SQL92 with functions, and values of JSON bodies."""

import json
import zlib
from typing import Any

import pytest

from hanabi.broker.filters.sql.functions import BODY_BYTES_MAX
from hanabi.broker.filters.sql.rule import CALLS_MAX, CompiledRule, compile_rule
from hanabi.errors import SubscriptionParseFailed
from hanabi.wire.message import sysflag
from hanabi.wire.message.compression import CompressionType
from hanabi.wire.message.hosts import encode_host
from hanabi.wire.message.properties import format_properties
from hanabi.wire.message.record import encode_record

HOST = encode_host("127.0.0.1", 1)
ORDER = {"amount": 120.5, "count": 3, "paid": True, "customer": {"name": " Ada ", "tags": ["new", "vip"]}, "x-y": "z"}


def stored(body: bytes, sys_flag: int = 0, **properties: str) -> memoryview:
    raw = encode_record(
        topic=b"T",
        queue_id=0,
        queue_offset=0,
        log_offset=0,
        body=body,
        properties=format_properties(properties).encode(),
        born_timestamp_ms=1,
        born_host=HOST,
        store_timestamp_ms=1,
        store_host=HOST,
        sys_flag=sys_flag,
    )
    return memoryview(raw)


def matches(text: str, body: Any = None, **properties: Any) -> bool:
    raw = body if isinstance(body, bytes) else json.dumps(ORDER if body is None else body).encode()
    return compile_rule(text).matches_record(stored(raw, **properties))


@pytest.mark.parametrize(
    "text",
    [
        "BODY('$.amount') > 100",
        "body('$.count') = 3 AND BODY('$.paid') = TRUE",
        "BODY('$.customer.name') CONTAINS 'Ada'",
        "TRIM(BODY('$.customer.name')) = 'Ada'",
        "LENGTH(BODY('$.customer.name')) = 5",
        "UPPER(BODY('$.customer.tags[1]')) IN ('VIP', 'GOLD')",
        "BODY('$[''x-y'']') = 'z'",
        "BODY('$.missing') IS NULL AND BODY('$.customer') IS NULL",
        "BODY() STARTSWITH '{'",
        "LOWER(region) = 'eu' AND SUBSTRING(region, 1, 1) = 'E' AND SUBSTRING(region, 2) = 'U'",
        "NOT (BODY('$.amount') BETWEEN 1 AND 10)",
        "UPPER('a') = 'A'",
        "region = 'EU'",
    ],
)
def test_a_rule_matches_by_properties_and_by_the_body(text: str) -> None:
    assert matches(text, region="EU")
    assert not matches(f"NOT ({text})", region="EU")


@pytest.mark.parametrize("body", [b"", b"no json", b"\xff\xfe", b"[1, 2", b'"text"', b"[" * 5_000])
def test_a_body_that_is_not_json_has_no_values(body: bytes) -> None:
    assert matches("BODY('$.amount') IS NULL", body)
    assert not matches("BODY('$.amount') > 1", body)


def test_a_compressed_body_is_unpacked_and_a_large_one_is_not_looked_at() -> None:
    rule = compile_rule("BODY('$.amount') > 100")
    compressed = sysflag.with_compression(0, CompressionType.ZLIB)
    assert rule.matches_record(stored(zlib.compress(json.dumps(ORDER).encode()), compressed))
    large = json.dumps({**ORDER, "fill": "x" * BODY_BYTES_MAX}).encode()
    assert not rule.matches_record(stored(large))
    assert not rule.matches_record(stored(zlib.compress(large), compressed)), "a bomb is not unpacked"
    assert not rule.matches_record(stored(b"damaged", compressed))
    assert not rule.matches_record(memoryview(b"no record at all"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("FORMAT(a) = '1'", "there is no function FORMAT"),
        ("UPPER(a, b) = 'A'", "takes one value"),
        ("UPPER(1) = 'A'", "takes a property"),
        ("BODY(a) = 'A'", "BODY takes nothing, or a path"),
        ("BODY('a.b') = 'A'", "is no path"),
        ("BODY('$..b') = 'A'", "is no path"),
        (f"BODY('${'.a' * 33}') = 'A'", "is no path"),
        ("SUBSTRING(a, b) = 'A'", "whole numbers"),
        ("SUBSTRING(a) = 'A'", "takes a value, a start"),
        ("UPPER(a = 'A'", "expected ','"),
        ("UPPER(a) AND UPPER(", "expected"),
        (" AND ".join(["UPPER(a) = 'A'"] * (CALLS_MAX + 1)), f"more than {CALLS_MAX} functions"),
        ("UPPER(" * 200 + "a" + ")" * 200 + " = 'A'", "levels of expressions"),
        ("__import__('os') = '1'", "there is no function __IMPORT__"),
    ],
)
def test_what_is_no_rule_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(SubscriptionParseFailed, match="column") as refused:
        CompiledRule(text)
    assert said in str(refused.value)


def test_properties_alone_are_enough_where_no_body_is_at_hand() -> None:
    rule = compile_rule("UPPER(a) = 'X'")
    assert rule.matches({"a": "x"})
    assert rule.matches_raw(b"a\x01x")
    assert not compile_rule("BODY() IS NOT NULL").matches({})


def test_a_rule_that_converts_a_large_body_again_and_again_matches_nothing() -> None:
    text = "\u0390" * (BODY_BYTES_MAX // 2)  # three characters in upper case
    nested = "BODY()"
    for name in ("UPPER", "LOWER") * 3:
        nested = f"{name}({nested})"
    assert matches("UPPER(BODY()) STARTSWITH '\u0399'", text.encode())
    assert matches(f"{nested} STARTSWITH 'a'", b"A" * 1_000)
    assert not matches(f"NOT ({nested} STARTSWITH 'a')", text.encode())
