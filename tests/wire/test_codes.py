"""Codes: one number each, and the errors that carry them agree."""

import re

import pytest

from hanabi.errors import BrokerError, MQError, UnknownReplyError
from hanabi.wire.codes import Language, RequestCode, ResponseCode, request_name
from tests.golden_frames import ALL_FRAMES


def subclasses(kind: type[MQError]) -> list[type[MQError]]:
    return [one for child in kind.__subclasses__() for one in (child, *subclasses(child))]


BROKER_ERRORS = [kind for kind in subclasses(BrokerError) if "code" in vars(kind)]


@pytest.mark.parametrize("kind", BROKER_ERRORS, ids=lambda kind: kind.__name__)
def test_an_error_is_named_for_its_response_code(kind: type[BrokerError]) -> None:
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).upper()
    assert kind.code == ResponseCode[name]
    assert type(BrokerError.from_reply(kind.code, None, asked="x")) is kind


def test_no_two_broker_errors_share_a_code() -> None:
    codes = [kind.code for kind in BROKER_ERRORS]
    assert len(set(codes)) == len(codes)


def test_every_error_has_a_code_that_says_no() -> None:
    for kind in subclasses(MQError):
        assert ResponseCode(kind.code) != ResponseCode.SUCCESS


def test_a_code_without_a_class_keeps_its_number() -> None:
    error = BrokerError.from_reply(ResponseCode.NO_MESSAGE, "none", asked="peek at broker-a")
    assert isinstance(error, UnknownReplyError)
    assert error.reply_code == 208
    assert str(error) == "peek at broker-a: none (code 208)"


def test_request_and_language_codes_are_unique() -> None:
    assert len(RequestCode.__members__) == len(RequestCode)
    assert len(Language.__members__) == len(Language)


def test_only_the_response_codes_that_5x_took_over_have_two_names() -> None:
    second_names = {name: code.name for name, code in ResponseCode.__members__.items() if name != code.name}
    assert second_names == {
        "POLLING_FULL": "UPDATE_AND_CREATE_ACL_CONFIG_FAILED",
        "POLLING_TIMEOUT": "DELETE_ACL_CONFIG_FAILED",
        "BROKER_NOT_EXIST": "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED",
    }


def test_every_golden_code_is_known_by_name() -> None:
    for golden in ALL_FRAMES:
        assert request_name(golden.request_code) == RequestCode(golden.request_code).name
        if golden.response:
            assert golden.code in set(ResponseCode)


def test_an_unknown_request_code_is_its_own_name() -> None:
    assert request_name(10) == "SEND_MESSAGE"
    assert request_name(99_999) == "99999"
    assert request_name(-1) == "-1"
