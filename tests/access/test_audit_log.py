"""The audit log: lines, hidden secrets, rotation, and a queue that is full."""

import json
from pathlib import Path

import pytest

from hanabi.access import audit_log
from hanabi.access.audit_line import HIDDEN, Line, Verdict, encode_line, is_change, redacted
from hanabi.access.audit_log import AuditLog
from hanabi.wire.codes import RequestCode


def line(number: int = 0, **more: object) -> Line:
    fields = {"time_ms": 1_700_000_000_000, "verdict": Verdict.REFUSED, "account": "app", "address": "10.0.0.1"}
    return Line(**fields, code=310, reason=f"reason {number}", **more)  # type: ignore[arg-type]


def test_a_line_says_who_from_where_what_and_why() -> None:
    told = json.loads(encode_line(line(resources=("Topic:Orders",))))
    assert told == {
        "time": "2023-11-14T22:13:20.000+00:00",
        "verdict": "refused",
        "account": "app",
        "address": "10.0.0.1",
        "request": "SEND_MESSAGE_V2",
        "code": 310,
        "resources": ["Topic:Orders"],
        "reason": "reason 0",
    }


def test_secrets_are_hidden_at_any_depth() -> None:
    value = {"secretKey": "a", "x": [{"password": "b", "userName": "u"}], "innerClientAuthenticationCredentials": "c"}
    value["initAuthenticationUser"] = '{"password":"d"}'
    assert redacted(value) == {
        "secretKey": HIDDEN,
        "x": [{"password": HIDDEN, "userName": "u"}],
        "innerClientAuthenticationCredentials": HIDDEN,
        "initAuthenticationUser": HIDDEN,
    }


def test_a_long_value_is_cut() -> None:
    assert len(encode_line(line(new={"body": "x" * 1_000_000}))) < 40_000


def test_a_full_file_is_followed_by_the_next_and_the_oldest_is_deleted(tmp_path: Path) -> None:
    path = tmp_path / "audit" / "audit.log"
    for part in range(6):
        log = AuditLog(path, file_bytes_max=300, files_max=3)
        log.start()
        for number in range(3):
            log.write(line(part * 3 + number))
        log.stop()
        assert (log.written, log.lost) == (3, 0)
    assert sorted(each.name for each in path.parent.iterdir()) == ["audit.log", "audit.log.1", "audit.log.2"]
    assert path.stat().st_mode & 0o777 == 0o600
    last = json.loads(path.read_text().splitlines()[-1])
    assert last["reason"] == "reason 17"


def test_lines_that_find_the_queue_full_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "LINES_WAITING_MAX", 5)
    log = AuditLog(tmp_path / "audit.log", file_bytes_max=1 << 20, files_max=2)
    for number in range(8):  # its thread does not run yet
        log.write(line(number))
    assert log.lost == 3
    log.start()
    log.stop()
    assert (log.written, log.lost) == (5, 3)


def test_lines_that_cannot_be_written_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(path, file_bytes_max=1, files_max=2)
    path.write_bytes(b"full\n")
    (tmp_path / "audit.log.1").mkdir()  # in the way of the rotation
    for _ in range(50):
        log.write(line())
    log.start()
    log.stop()
    assert (log.written, log.lost) == (0, 50)


def test_changes_are_noted_and_client_traffic_is_not() -> None:
    changes = (
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
        RequestCode.AUTH_UPDATE_USER,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        999_999,
    )
    assert all(map(is_change, changes))
    traffic = (310, 11, 15, 34, RequestCode.GET_BROKER_CONFIG, RequestCode.AUTH_LIST_USER)
    assert not any(map(is_change, traffic))
