"""Signatures as Apache's AclClientRPCHook makes them; tests/interop/test_python_acl.py asks a real broker."""

import base64
import hashlib
import hmac

import pytest

from hanabi.client.cluster.signing import sign
from hanabi.client.config import Credentials
from hanabi.errors import ConfigError
from hanabi.wire.signature import signature

CREDENTIALS = Credentials("rocketmq2", "12345678")


def expected(text: bytes, secret: bytes = b"12345678") -> str:
    return base64.b64encode(hmac.new(secret, text, hashlib.sha1).digest()).decode()


def test_the_values_are_signed_in_the_order_of_their_names_and_then_the_body() -> None:
    signed = sign({"topic": "T", "b": "2", "a": "1"}, b"body", CREDENTIALS)
    # capitals come before small letters, in Java's TreeMap as here
    assert signed["Signature"] == expected(b"rocketmq2" + b"1" + b"2" + b"T" + b"body")
    assert signed["AccessKey"] == "rocketmq2"
    assert {name: signed[name] for name in ("topic", "a", "b")} == {"topic": "T", "a": "1", "b": "2"}


def test_a_token_is_sent_and_signed_too() -> None:
    signed = sign({"z": "Z"}, b"", Credentials("key", "secret", "token"))
    assert signed["SecurityToken"] == "token"
    assert signed["Signature"] == expected(b"keytokenZ", b"secret")


def test_a_request_without_fields_is_signed_by_its_access_key_and_body() -> None:
    assert sign({}, b"{}", CREDENTIALS)["Signature"] == expected(b"rocketmq2{}")


def test_text_outside_ascii_is_signed_as_utf8() -> None:
    assert signature({"i": "KEYS\x01größe\x02"}, b"", "geheim") == expected("KEYS\x01größe\x02".encode(), b"geheim")


def test_the_mark_that_brokers_check_differently_is_not_sent() -> None:
    assert sign({"a": "1", "_UNIQUE_KEY_QUERY": "true"}, b"", CREDENTIALS) == sign({"a": "1"}, b"", CREDENTIALS)


def test_what_was_to_be_signed_is_left_as_it_was() -> None:
    fields = {"a": "1"}
    sign(fields, b"", CREDENTIALS)
    assert fields == {"a": "1"}


def test_the_secret_is_not_shown() -> None:
    assert "12345678" not in repr(CREDENTIALS)
    assert "12345678" not in str(CREDENTIALS)


def test_half_of_the_credentials_is_an_error() -> None:
    with pytest.raises(ConfigError, match="secret key"):
        Credentials("key", "")
