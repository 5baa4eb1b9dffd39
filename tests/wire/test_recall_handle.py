"""Recall handles as text."""

from base64 import urlsafe_b64encode

import pytest

from hanabi.errors import RemoteProtocolError
from hanabi.wire.recall_handle import RecallHandle, decode_recall_handle

HANDLE = RecallHandle("Orders", "broker-a", 1_700_000_000_001, "7F0000010000000000000001")
# Base64.getUrlEncoder of Java 17
TEXT = "djEgT3JkZXJzIGJyb2tlci1hIDE3MDAwMDAwMDAwMDEgN0YwMDAwMDEwMDAwMDAwMDAwMDAwMDAx"


def encoded(words: str) -> str:
    return urlsafe_b64encode(words.encode()).decode()


def test_a_handle_is_that_of_java() -> None:
    assert HANDLE.encode() == TEXT
    assert decode_recall_handle(TEXT) == HANDLE


def test_padding_may_be_missing_and_further_words_are_ignored() -> None:
    handle = RecallHandle("T", "b", 1, "key")
    assert decode_recall_handle(handle.encode().rstrip("=")) == handle
    assert decode_recall_handle(encoded("v1 T b 1 key more")) == handle


@pytest.mark.parametrize(
    "text",
    [
        *("", "%%%", "djE", "A" * 5_000, "djEg\nT3Jk", "+/+/"),
        *(encoded("v2 T b 1 key"), encoded("v1 T b 1"), encoded("v1  b 1 key"), encoded("v1")),
    ],
)
def test_what_is_no_handle_is_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="recall handle is invalid"):
        decode_recall_handle(text)


@pytest.mark.parametrize("number", ["soon", "-5", "9" * 30, "²"])
def test_a_time_that_is_no_number_is_never(number: str) -> None:
    assert decode_recall_handle(encoded(f"v1 T b {number} key")).at_ms == -1
