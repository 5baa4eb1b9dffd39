"""The server's side of signatures: the right secret, a wrong one, two during a rotation, and the disputed mark."""

import pytest

from hanabi.wire.codes import RequestCode
from hanabi.wire.signature import SIGNATURE, UNIQUE_KEY_QUERY, is_signed_by, signature

SEND = RequestCode.SEND_MESSAGE_V2
FIELDS = {"AccessKey": "rocketmq2", "a": "group", "b": "größe"}


def signed(fields: dict[str, str], body: bytes = b"body", *, key: str = "12345678") -> dict[str, str]:
    return {**fields, SIGNATURE: signature(fields, body, key)}


def test_the_right_secret_is_accepted_and_a_wrong_one_is_not() -> None:
    assert is_signed_by(SEND, signed(FIELDS), b"body", [b"12345678"])
    assert not is_signed_by(SEND, signed(FIELDS), b"body", [b"12345679"])


def test_either_secret_of_a_rotation_is_accepted() -> None:
    for secret in ("old-secret", "new-secret"):
        assert is_signed_by(SEND, signed(FIELDS, key=secret), b"body", [b"new-secret", b"old-secret"])


@pytest.mark.parametrize("change", [{"b": "other"}, {"z": "added"}, {"AccessKey": "another"}])
def test_a_changed_field_is_noticed(change: dict[str, str]) -> None:
    assert not is_signed_by(SEND, signed(FIELDS) | change, b"body", [b"12345678"])


def test_a_changed_body_is_noticed() -> None:
    assert not is_signed_by(SEND, signed(FIELDS), b"b0dy", [b"12345678"])


@pytest.mark.parametrize("given", ["", "ä", "x" * 100_000, "\0"])
def test_a_malformed_signature_is_only_wrong(given: str) -> None:
    assert not is_signed_by(SEND, {**FIELDS, SIGNATURE: given}, b"", [b"12345678"])


def test_no_secret_accepts_nothing() -> None:
    assert not is_signed_by(SEND, signed(FIELDS), b"body", [])
    assert not is_signed_by(SEND, FIELDS, b"body", [b"12345678"])


def test_a_key_query_is_accepted_with_its_mark_signed_or_not() -> None:
    query = RequestCode.QUERY_MESSAGE
    marked = {**FIELDS, UNIQUE_KEY_QUERY: "true"}
    assert is_signed_by(query, signed(marked), b"body", [b"12345678"])
    assert is_signed_by(query, {**signed(FIELDS), UNIQUE_KEY_QUERY: "true"}, b"body", [b"12345678"])


def test_the_mark_is_no_excuse_for_other_requests() -> None:
    assert not is_signed_by(SEND, {**signed(FIELDS), UNIQUE_KEY_QUERY: "true"}, b"body", [b"12345678"])
